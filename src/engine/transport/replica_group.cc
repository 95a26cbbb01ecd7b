#include "engine/transport/replica_group.h"

#include <vector>

#include "core/base/error.h"

namespace twobw::transport {

std::shared_ptr<ReplicaSum> ReplicaGroup::contribute(std::int64_t update, int replica, Contribution own) {
  std::shared_ptr<ReplicaSum> sum;
  hub_.update([&] {
    Entry& entry = entries_[update];
    const bool fresh = entry.parts.emplace(replica, std::move(own)).second;
    TWOBW_ASSERT(fresh, "replica {} contributed twice to update {}", replica, update);
    if (static_cast<int>(entry.parts.size()) < replicas_) return;
    std::vector<Contribution> all;
    for (const auto& [from, contribution] : entry.parts) all.push_back(contribution);
    sum = entry.sum = make_sum_(std::move(all));
  });
  return sum;
}

std::shared_ptr<ReplicaSum> ReplicaGroup::await(std::int64_t update) {
  return hub_.wait(
      fmt::format("gradients of update {} from all {} replicas", update, replicas_),
      [&] { return entries_[update].sum != nullptr; },
      [&] {
        Entry& entry = entries_[update];
        std::shared_ptr<ReplicaSum> sum = entry.sum;
        if (++entry.awaited == replicas_) entries_.erase(update);
        return sum;
      });
}

}  // namespace twobw::transport
