// The sum of the gradients that the replicas of one stage have of an update, added in the order of the
// replicas, so that it rounds alike wherever and by whomever it is made.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/device/stream_event.h"
#include "engine/transport/group.h"
#include "engine/transport/replica_limits.h"

namespace twobw::transport {

// What one replica has of an update, on one stage.
struct Contribution {
  // The replica's own buffer. Once contributed it belongs to all replicas, until they learn by other means
  // (StageGroup) that it holds the sum.
  at::Tensor gradient;
  device::StreamEvent ready;  // when it will be complete
  // Once it holds the sum: squared norms of what the replica updates of it. From any thread.
  std::function<Norms()> norms = {};
};

// Where the sum of some elements goes: into every replica's buffer, or into that of their owner alone. What
// the others have there is of no use then.
struct SumRange {
  std::int64_t begin = 0, count = 0;
  int owner = kAll;  // a replica

  static constexpr int kAll = -1;
  std::int64_t end() const { return begin + count; }
};
// All elements of the buffers, in their order; none: every buffer takes the whole sum.
using SumRanges = std::vector<SumRange>;

class ReplicaSum {
 public:
  virtual ~ReplicaSum() = default;

  // Takes part in making it, until nothing is left to begin. True for the one caller that is to do what
  // follows from the sum.
  virtual bool help() = 0;

  // Does the work of that caller, whose replica is named, once the buffers hold the sum. What it
  // queues on a GPU comes after the sum and beside what the worker queues otherwise, so that no worker waits
  // for the slowest replica here. Between processes it is done later, on a thread of the sum's own.
  virtual void afterwards(int replica, const std::function<void()>& work) = 0;

  // Copies [offset, offset + count) of one replica's buffer into all others; as part of that work.
  virtual void share(int replica, std::int64_t offset, std::int64_t count) const = 0;

  // As part of that work, for every replica of this process what it contributed: what `visit` queues goes to
  // that replica's GPU, after all that the work has queued before.
  using Visit = std::function<void(int replica, const Contribution& contribution)>;
  virtual void for_each(const Visit& visit) const = 0;
};

// Makes the sum of one update after another.
using MakeSum = std::function<std::shared_ptr<ReplicaSum>(std::vector<Contribution> all)>;

// By the threads of the workers themselves, in parts.
MakeSum sums_on_cores(SumRanges ranges = {});

// Every replica's GPU adds up a part of the buffers, and all that is its own, and hands to all what is for
// all. Where the replicas share a GPU their buffers are read and written in place, unless they are to be
// treated as apart. For at most kMostReplicasOnGpus; ranges begin on multiples of 16 bytes.
MakeSum sums_on_gpus(bool simulate_peers, SumRanges ranges = {});

}  // namespace twobw::transport
