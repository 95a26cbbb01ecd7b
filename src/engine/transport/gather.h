// The replicas of one stage hand each other what each has made of a flat buffer, a part each, so that all
// have the whole of it. All come here as often, and in the same order. On GPUs the copies are queued, and no
// thread waits for more than that the others have come here.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/inbox.h"
#include "engine/transport/gpu_paths.h"
#include "engine/transport/hub.h"
#include "engine/transport/on_failure.h"
#include "engine/transport/wire.h"
#include "engine/weights/layout.h"

namespace twobw::transport {

// Tags of a wire that a gather takes, from its first on.
constexpr int kGatherTags = 2;

// Of replicas in several processes.
struct RemoteGatherSetup {
  Wire& wire;
  int tag = 0;             // the first, the same in all processes
  std::vector<int> ranks;  // of each replica, rising
  std::string name;        // of the thread
  OnFailure on_failure;
  std::shared_ptr<GpuGatherer> gpu = nullptr;  // of buffers on GPUs
};

// Exchanges parts with other processes, on a thread of its own: whoever waits for them does so in the hub.
class RemoteGather {
 public:
  RemoteGather(RemoteGatherSetup setup, std::vector<weights::Range> parts);
  ~RemoteGather();  // waits for what was begun, unless the wire is aborted
  RemoteGather(const RemoteGather&) = delete;
  RemoteGather& operator=(const RemoteGather&) = delete;

  // Sends their parts to the others, and receives the others' into the first of them; then `done`, with when
  // that will be so.
  using Done = std::function<void(device::StreamEvent arrived)>;
  void put(Gathered buffers, Done done);

 private:
  struct Job {
    Gathered buffers;
    Done done;
  };
  void work();
  device::StreamEvent exchange(const Gathered& buffers);

  RemoteGatherSetup setup_;
  std::vector<int> processes_;         // ranks, each once
  std::vector<weights::Range> parts_;  // by replica
  Inbox<Job> jobs_;
  std::thread thread_;
};

class Gather {
 public:
  // `parts`: by replica. `here`: replicas in this process; `remote`, which outlives it, brings in the others.
  Gather(Hub& hub, std::vector<weights::Range> parts, int here, RemoteGather* remote = nullptr);

  // `whole` holds the replica's part; on return it holds all, and nobody reads it any more: for what the
  // calling worker does, or queues, from then on. Throws WaitTimeout or Cancelled.
  void run(int replica, const at::Tensor& whole);

 private:
  struct Turn {
    Gathered buffers;
    bool ready = false;
    device::StreamEvent arrived;             // from other processes
    std::vector<device::StreamEvent> taken;  // by each replica here, when it will have all
    int left = 0;
  };
  // Copies into the replica's buffer what the others here have.
  void take(int replica, const Turn& turn) const;

  Hub& hub_;
  std::vector<weights::Range> parts_;
  int here_;
  RemoteGather* remote_;
  std::vector<std::int64_t> turns_;  // begun, by replica
  std::map<std::int64_t, Turn> open_;
};

}  // namespace twobw::transport
