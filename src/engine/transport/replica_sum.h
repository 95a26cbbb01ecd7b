// The sum of the replicas' gradients of one stage and update, added in the order of the replicas, so that it
// rounds the same way wherever and by whomever it is computed.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "engine/device/clock.h"
#include "engine/transport/group.h"
#include "engine/transport/sum_rounds.h"
#include "engine/transport/wait_hub.h"

namespace twobw::transport {

// One replica's gradients of an update, on one stage.
struct Contribution {
  // The replica's own buffer. Once contributed it is shared by all replicas until they know by other means
  // (NormExchange) that it holds the sum.
  at::Tensor gradient;
  device::StreamEvent ready;  // when it is complete
  // Squared norms of the part that the replica updates, once the buffer holds the sum. Thread-safe.
  std::function<Norms()> norms = {};
};

class ReplicaSum {
 public:
  virtual ~ReplicaSum() = default;

  // Adds parts until all have been started. Returns true to one caller, which must call then().
  virtual bool advance() = 0;

  // Does the work for that caller's replica once the buffers hold the sum. GPU work is queued after the sum,
  // on streams beside the worker's own, so that no worker waits for the slowest replica here. Between
  // processes it is done later, on the helper thread of the sums.
  virtual void then(int replica, const std::function<void()>& work) = 0;

  // Copies [offset, offset + count) of one replica's buffer into all others. Called as part of that work.
  virtual void share(int replica, std::int64_t offset, std::int64_t count) const = 0;

  // Visits the contributions of this process, as part of that work: `visit` queues to that replica's GPU,
  // after all that the work has queued before.
  using Visit = std::function<void(int replica, const Contribution& contribution)>;
  virtual void for_each(const Visit& visit) const = 0;
};

// Makes the sum of one update after another.
using MakeSum = std::function<std::shared_ptr<ReplicaSum>(std::vector<Contribution> all)>;

// Added in parts by the workers' own threads.
MakeSum sums_on_cores(SumRanges ranges = {});

// Every replica's GPU adds a share of the buffers, and all of its own ranges, and distributes the shared
// part. Replicas on one GPU are read and written in place, unless `simulate_peers`. For at most
// kMostReplicasOnGpus; ranges begin on multiples of 16 bytes.
MakeSum sums_on_gpus(bool simulate_peers, SumRanges ranges = {});

// Collects the contributions of one stage's replicas. Nobody waits for another: the last contributor begins
// the sum, and a replica that needs it earlier helps to compute it.
class ReplicaGroup {
 public:
  ReplicaGroup(WaitHub& hub, int replicas, MakeSum make_sum = sums_on_cores())
      : hub_(hub), replicas_(replicas), make_sum_(std::move(make_sum)) {}

  // Returns the pending sum to the last contributor, null to the rest.
  std::shared_ptr<ReplicaSum> contribute(std::int64_t update, int replica, Contribution own);
  // Blocks until all have contributed; returns the same sum. Called once by every replica; the last call
  // clears the entry.
  std::shared_ptr<ReplicaSum> await(std::int64_t update);

 private:
  struct Entry {
    std::map<int, Contribution> parts;
    std::shared_ptr<ReplicaSum> sum;
    int awaited = 0;
  };
  WaitHub& hub_;
  int replicas_;
  MakeSum make_sum_;
  std::map<std::int64_t, Entry> entries_;
};

}  // namespace twobw::transport
