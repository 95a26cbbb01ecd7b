// GPU transfers between processes, implemented with NCCL. A header travels ahead on a wire, through the host,
// and only once the tensors are complete: no GPU waits for work that another has still to do, and all queued
// work finishes by itself.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/transport/link.h"
#include "engine/transport/replica_sum.h"
#include "engine/transport/wait_hub.h"
#include "engine/transport/wire.h"
#include "engine/weights/layout.h"

namespace twobw::transport {

// One direction between two processes; each has one end, used by one thread. All throw Cancelled after an
// abort, RunError if a transfer fails.
class GpuPath {
 public:
  virtual ~GpuPath() = default;

  // Blocks until the tensors are complete.
  virtual void await(const device::StreamEvent& ready) = 0;
  // Queues the transfer; keeps the tensors until it has finished.
  virtual void send(Tensors tensors) = 0;
  // Queues the transfer; the message's event is its end.
  virtual Message receive(const TensorShapes& shapes) = 0;
  // Returns the received tensors on the GPU of the calling worker, ordered with its stream.
  virtual Tensors take(Message message) const = 0;
  // Blocks until all queued transfers have finished.
  virtual void drain() = 0;
};

// The flat buffer of a replica that has updated its part.
struct OwnersBuffer {
  at::Tensor whole;
  device::StreamEvent ready;  // when the part is complete and the rest may be overwritten
};
using Gathered = std::map<int, OwnersBuffer>;  // by replica, those of this process

// All-reduce over one stage's replicas, each process adding its part; used by one thread.
class GpuAdder {
 public:
  virtual ~GpuAdder() = default;

  // Blocks until the gradients of the replicas here are complete.
  virtual void await(const std::vector<Contribution>& here) = 0;
  // After all processes have awaited theirs: queues the sum over all replicas.
  virtual void add_up(const std::vector<Contribution>& here) = 0;
  // Does the work, which is queued after the sums, on the GPU of a gradient here.
  virtual void then(const at::Tensor& gradient, const std::function<void()>& work) = 0;
  // As part of that work: queues on the GPU of any gradient here, after all that was queued before.
  virtual void on_gpu_of(const at::Tensor& gradient, const std::function<void()>& work) = 0;
  // Blocks until all queued sums have finished.
  virtual void drain() = 0;
};

// All-gather of a flat buffer over one stage's replicas (gather.h); used by one thread.
class GpuGatherer {
 public:
  virtual ~GpuGatherer() = default;

  // Blocks until the buffers here hold their parts and the rest may be overwritten.
  virtual void await(const Gathered& here) = 0;
  // After all processes have awaited theirs: queues the exchange of parts, received into the first buffer
  // here. Returns the event of its end.
  virtual device::StreamEvent exchange(const Gathered& here) = 0;
  // Blocks until all queued exchanges have finished.
  virtual void drain() = 0;
};

// The replicas of a stage in several processes, which sum or gather over a wire, and the helper thread that
// does it in this process.
struct RemoteReplicas {
  Wire& wire;
  int tag = 0;             // the first, the same in all processes
  std::vector<int> ranks;  // of each replica, ascending
  std::string name;        // of the thread
  OnFailure on_failure;
};

// Factory of one pipeline's paths, adders and gatherers, which are destroyed before it.
class GpuPaths {
 public:
  virtual ~GpuPaths() = default;

  // Collective over the processes that take part, in the same order in all of them: they return when all are
  // connected and have exchanged a greeting. `gpu`: of this process. They throw like a transfer.
  struct LinkEnd {
    Wire& wire;
    int peer = 0, tag = 0;
    bool sends = false;
    int gpu = 0;
  };
  virtual std::unique_ptr<GpuPath> connect(const LinkEnd& end) = 0;
  virtual std::unique_ptr<GpuAdder> join(const RemoteReplicas& replicas, int gpu, SumRanges ranges) = 0;
  // `parts`: by replica.
  virtual std::unique_ptr<GpuGatherer> join_owners(const RemoteReplicas& replicas, int gpu,
                                                   std::vector<weights::Range> parts) = 0;

  // Ends all transfers of this process, present and future. Thread-safe; does not block.
  virtual void abort() = 0;
};

// Version of the loaded NCCL, 23007 for 2.30.7; 0 in a build without it.
int nccl_version();

// `timeout`: of connecting, and of any transfer. `on_failure` is called if one fails or times out.
std::unique_ptr<GpuPaths> nccl_paths(std::chrono::duration<double> timeout, OnFailure on_failure);

}  // namespace twobw::transport
