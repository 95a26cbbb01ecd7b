// A link whose ends are in two processes, joined by a wire. Only the helper thread of each end waits for the
// wire: the sender's keeps a tensor until it is sent, the receiver's puts messages into a mailbox, on which
// the worker blocks as on a local link.
//
// A header with tag and shapes precedes each message. The tensors of nearly all microbatches have the shapes
// of the first; their receives are posted ahead.
//
// Tensors on a GPU take a path of their own (gpu_paths.h); their header is sent once they are complete.
#pragma once

#include <memory>
#include <string>

#include "engine/transport/gpu_paths.h"
#include "engine/transport/link.h"
#include "engine/transport/wire.h"

namespace twobw::transport {

// Tags of a wire that a link uses, starting at its first.
constexpr int kRemoteLinkTags = 3;

struct RemoteEnd {
  Wire& wire;
  int peer = 0;      // the other end's rank
  int tag = 0;       // the first, the same at both ends
  std::string name;  // of the thread
  OnFailure on_failure;
  std::shared_ptr<GpuPath> gpu = nullptr;  // for tensors on GPUs
};

// Header of a message, sent as a tensor of fixed size so that its receive can be posted without knowing it.
struct MessageHeader {
  bool ends = false;  // the last header: no message follows
  Tag tag{};
  bool regular = false;  // the shapes are those of every microbatch
  TensorShapes shapes;

  static void fields(auto& self, auto&& visit) { visit(self.ends, self.tag, self.regular, self.shapes); }
};
at::Tensor to_tensor(const MessageHeader& header);
MessageHeader to_header(const at::Tensor& tensor);

// Only sends. The destructor blocks until all is sent, and closes the link at the other end.
std::unique_ptr<Link> sending_end(RemoteEnd end);
// Only receives. The destructor blocks until the sender has closed the link, or the wire is aborted.
std::unique_ptr<Link> receiving_end(WaitHub& hub, RemoteEnd end);

}  // namespace twobw::transport
