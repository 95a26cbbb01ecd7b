// The replicas of one stage put their gradients together, and none waits for another: each contributes and
// goes on. The last to come begins the sum; whoever needs it before it is done takes part in making it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "engine/transport/hub.h"
#include "engine/transport/replica_sum.h"

namespace twobw::transport {

class ReplicaGroup {
 public:
  ReplicaGroup(Hub& hub, int replicas, MakeSum make_sum = sums_on_cores())
      : hub_(hub), replicas_(replicas), make_sum_(std::move(make_sum)) {}

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
  MakeSum make_sum_;
  std::map<std::int64_t, Entry> entries_;
};

}  // namespace twobw::transport
