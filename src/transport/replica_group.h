// The replicas of one stage put their gradients together, and none waits for another: each contributes and
// goes on. The last to come is handed what all of them gave and does for all what follows from it.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "transport/hub.h"

namespace twobw::transport {

// What one replica has of an update, on one stage.
struct Contribution {
  // The replica's own buffer. Once contributed it belongs to whoever comes last, until that worker says
  // otherwise by other means (StageGroup).
  at::Tensor gradient;
  double loss = 0;  // summed over the replica's microbatches; 0 where the stage does not know it
};

class ReplicaGroup {
 public:
  ReplicaGroup(Hub& hub, int replicas) : hub_(hub), replicas_(replicas) {}

  // All contributions to the update, by replica, to the last that comes; nothing to the others.
  std::vector<Contribution> contribute(std::int64_t update, int replica, Contribution own);

 private:
  Hub& hub_;
  int replicas_;
  std::map<std::int64_t, std::map<int, Contribution>> entries_;
};

// The sum of the gradients in the order of the replicas, so that it rounds alike whoever makes it, in the
// buffer of replica `own`. The other buffers are left in pieces.
void sum_into(int own, std::span<const Contribution> all);
// Copies the buffer of replica `own` into all others.
void share_from(int own, std::span<const Contribution> all);

}  // namespace twobw::transport
