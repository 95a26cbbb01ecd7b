// The replicas of one stage put their gradients together, and none waits for another: each contributes and
// goes on. The last to come begins the sum; whoever needs it before it is done takes part in making it.
#pragma once

#include <ATen/ATen.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "transport/hub.h"

namespace twobw::transport {

// What one replica has of an update, on one stage.
struct Contribution {
  // The replica's own buffer. Once contributed it belongs to all replicas, until they learn by other means
  // (StageGroup) that it holds the sum.
  at::Tensor gradient;
  double loss = 0;  // summed over the replica's microbatches; 0 where the stage does not know it
};

// The sum of the gradients, made in parts by any number of threads in the order of the replicas, so that it
// rounds alike whoever makes it.
class ReplicaSum {
 public:
  explicit ReplicaSum(std::vector<Contribution> all);

  // Takes part until nothing is left to begin. True for the one thread that ends last: every buffer
  // holds the sum then.
  bool help();

  double loss() const;  // of all replicas
  // Copies [offset, offset + count) of one replica's buffer into all others. Once the sum is made.
  void share(int replica, std::int64_t offset, std::int64_t count) const;

 private:
  void add_up(std::int64_t begin, std::int64_t end) const;

  std::vector<Contribution> all_;
  std::int64_t size_, parts_;
  std::atomic<std::int64_t> begun_ = 0, ended_ = 0;
};

class ReplicaGroup {
 public:
  ReplicaGroup(Hub& hub, int replicas) : hub_(hub), replicas_(replicas) {}

  // The sum to be made, to the last that comes; nothing to the others.
  std::shared_ptr<ReplicaSum> contribute(std::int64_t update, int replica, Contribution own);
  // The same once all have contributed. To be called once by every replica; the last one clears the entry.
  std::shared_ptr<ReplicaSum> await(std::int64_t update);

 private:
  struct Entry {
    std::map<int, Contribution> parts;
    std::shared_ptr<ReplicaSum> sum;
    int awaited = 0;
  };
  Hub& hub_;
  int replicas_;
  std::map<std::int64_t, Entry> entries_;
};

}  // namespace twobw::transport
