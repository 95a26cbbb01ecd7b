// How tensors on GPUs get from one process to another, by NCCL. What they are goes ahead on a wire, by way of
// the host, and only once they are there to be taken: so no GPU ever waits for work that another has still
// to do, and whatever is queued ends by itself.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/transport/mailbox.h"
#include "engine/transport/message_header.h"
#include "engine/transport/on_failure.h"
#include "engine/transport/replica_sum.h"
#include "engine/transport/wire.h"
#include "engine/weights/layout.h"

namespace twobw::transport {

// One way between two processes; each has an end, and a thread that uses it. All throw Cancelled once
// aborted, RunError where a transfer fails.
class GpuPath {
 public:
  virtual ~GpuPath() = default;

  // Waits until the tensors are there.
  virtual void await(const device::StreamEvent& ready) = 0;
  // Queues the transfer of what is there; keeps the tensors until it has ended.
  virtual void send(Tensors tensors) = 0;
  // Queues the transfer, and says when it will have ended.
  virtual Message receive(const TensorShapes& shapes) = 0;
  // What was received, on the GPU of the calling worker's thread and in the order of its stream.
  virtual Tensors take(Message message) const = 0;
  // Waits for the transfers queued so far.
  virtual void drain() = 0;
};

// The flat buffer of a replica that has made its part of it.
struct OwnersBuffer {
  at::Tensor whole;
  device::StreamEvent ready;  // when the part will be there, and the rest may be written
};
using Gathered = std::map<int, OwnersBuffer>;  // by replica, those of this process

// The sums of one stage's replicas, each process with its part; used by one thread.
class GpuAdder {
 public:
  virtual ~GpuAdder() = default;

  // Waits until the gradients of the replicas here are complete.
  virtual void await(const std::vector<Contribution>& here) = 0;
  // Once they are in all processes: queues what puts the sum over all replicas where it belongs.
  virtual void add_up(const std::vector<Contribution>& here) = 0;
  // Does the work, which queues after the sums, on the GPU of a gradient here.
  virtual void afterwards(const at::Tensor& gradient, const std::function<void()>& work) = 0;
  // As part of that work: what this does is queued on the GPU of any gradient here, after what was before.
  virtual void beside(const at::Tensor& gradient, const std::function<void()>& work) = 0;
  // Waits for the sums queued so far.
  virtual void drain() = 0;
};

// What the replicas of one stage have made of a flat buffer, a part each, on its way to all processes
// (engine/transport/gather.h); used by one thread.
class GpuGatherer {
 public:
  virtual ~GpuGatherer() = default;

  // Waits until the buffers here hold their parts, and the rest of them may be written.
  virtual void await(const Gathered& here) = 0;
  // Once they do in all processes: queues what sends those parts to the others, and receives the others' into
  // the first buffer here; says when that will have ended.
  virtual device::StreamEvent exchange(const Gathered& here) = 0;
  // Waits for the exchanges queued so far.
  virtual void drain() = 0;
};

// Those of one pipeline. What it makes goes before it does.
class GpuPaths {
 public:
  virtual ~GpuPaths() = default;

  // All processes that have a part call them at the same place among their calls; they return when all are
  // connected and have heard of each other. `gpu`: this process's. They throw like a transfer.
  struct LinkEnd {
    Wire& wire;
    int peer = 0, tag = 0;
    bool sends = false;
    int gpu = 0;
  };
  virtual std::unique_ptr<GpuPath> connect(const LinkEnd& end) = 0;
  struct Replicas {
    Wire& wire;
    int tag = 0;
    std::vector<int> ranks;  // of each replica, rising
    int gpu = 0;
  };
  virtual std::unique_ptr<GpuAdder> join(const Replicas& replicas, SumRanges ranges) = 0;
  // `parts`: by replica.
  virtual std::unique_ptr<GpuGatherer> join_owners(const Replicas& replicas,
                                                   std::vector<weights::Range> parts) = 0;

  // Ends all transfers of this process, also those to come. From any thread; does not block.
  virtual void abort() = 0;
};

// Of the library that is loaded, 23007 for 2.30.7; 0 in a build without NCCL.
int nccl_version();

// `timeout`: of connecting, and of any transfer. `on_failure` is told where one fails or does not end.
std::unique_ptr<GpuPaths> nccl_paths(std::chrono::duration<double> timeout, OnFailure on_failure);

}  // namespace twobw::transport
