// A link whose ends are in two processes, joined by a wire. Each end has a thread of its own, which alone
// waits for the wire: the sender's keeps a tensor until it has gone, the receiver's puts what comes into a
// mailbox, where the worker waits for it as on a local link.
//
// A header tells the shapes of a message (message_header.h). Those that come for every microbatch have the
// shapes of the first nearly always, and are received into memory that waits for them.
//
// Tensors on a GPU go by a path of their own (gpu_paths.h); their header is sent once they are there.
#pragma once

#include <memory>
#include <string>

#include "engine/transport/gpu_paths.h"
#include "engine/transport/link.h"
#include "engine/transport/on_failure.h"
#include "engine/transport/wire.h"

namespace twobw::transport {

// Tags of a wire that a link takes, from its first on.
constexpr int kRemoteLinkTags = 3;

struct RemoteEnd {
  Wire& wire;
  int peer = 0;      // the other end's rank
  int tag = 0;       // the first, the same at both ends
  std::string name;  // of the thread
  OnFailure on_failure;
  std::shared_ptr<GpuPath> gpu = nullptr;  // of tensors on GPUs
};

// Only sends. Destroyed, it waits until all has gone, and tells the other end that no more comes.
std::unique_ptr<Link> sending_end(RemoteEnd end);
// Only receives. Destroyed, it waits for that word, or until the wire is aborted.
std::unique_ptr<Link> receiving_end(Hub& hub, RemoteEnd end);

}  // namespace twobw::transport
