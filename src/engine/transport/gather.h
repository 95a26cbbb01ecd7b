// All-gather over the replicas of one stage: each has updated its part of a flat buffer, and afterwards all
// have all parts. Collective: all replicas call it equally often, in the same order; callers block only until
// peers arrive, GPU copies are queued.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/threads.h"
#include "engine/transport/gpu_paths.h"
#include "engine/transport/wait_hub.h"
#include "engine/transport/wire.h"
#include "engine/weights/layout.h"

namespace twobw::transport {

// Tags of a wire that a gather uses, starting at its first.
constexpr int kGatherTags = 2;

// Exchanges parts with other processes on a helper thread; waiters block in the hub.
class RemoteGather {
 public:
  // `parts`: by replica. `gpu`: for buffers on GPUs, with the same parts.
  RemoteGather(RemoteReplicas replicas, std::vector<weights::Range> parts,
               std::shared_ptr<GpuGatherer> gpu = nullptr);
  ~RemoteGather();  // finishes pending exchanges, unless the wire is aborted

  // Sends the parts of these buffers to the other processes and receives theirs into the first buffer; then
  // calls `done` with the event of their arrival.
  using Done = std::function<void(device::StreamEvent arrived)>;
  void put(Gathered buffers, Done done);

 private:
  struct Job {
    Gathered buffers;
    Done done;
  };
  void work();
  device::StreamEvent exchange(const Gathered& buffers);

  RemoteReplicas replicas_;
  std::vector<int> processes_;  // ranks, each once
  std::vector<weights::Range> parts_;
  std::shared_ptr<GpuGatherer> gpu_;
  Inbox<Job> jobs_;
  std::thread thread_;
};

class Gather {
 public:
  // `parts`: by replica. `here`: replicas in this process; `remote` (outlives this) exchanges with the
  // others.
  Gather(WaitHub& hub, std::vector<weights::Range> parts, int here, RemoteGather* remote = nullptr);

  // `whole` holds the replica's part. For all work that the caller does or queues after the return, it holds
  // all parts and has no other reader. Throws WaitTimeout or Cancelled.
  void run(int replica, const at::Tensor& whole);

 private:
  struct Turn {
    Gathered buffers;
    bool ready = false;
    device::StreamEvent arrived;             // from other processes
    std::vector<device::StreamEvent> taken;  // by replica here: when it has all parts
    int left = 0;
  };
  // Copies the parts of the others here into the replica's buffer.
  void take(int replica, const Turn& turn) const;

  WaitHub& hub_;
  std::vector<weights::Range> parts_;
  int here_;
  RemoteGather* remote_;
  std::vector<std::int64_t> turns_;  // started, by replica
  std::map<std::int64_t, Turn> open_;
};

}  // namespace twobw::transport
