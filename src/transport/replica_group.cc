#include "transport/replica_group.h"

#include "base/error.h"

namespace twobw::transport {

std::vector<Contribution> ReplicaGroup::contribute(std::int64_t update, int replica, Contribution own) {
  std::vector<Contribution> all;
  hub_.update([&] {
    auto& entry = entries_[update];
    const bool fresh = entry.emplace(replica, std::move(own)).second;
    TWOBW_ASSERT(fresh, "replica {} contributed twice to update {}", replica, update);
    if (static_cast<int>(entry.size()) < replicas_) return;
    for (auto& [from, contribution] : entry) all.push_back(std::move(contribution));
    entries_.erase(update);
  });
  return all;
}

void sum_into(int own, std::span<const Contribution> all) {
  at::Tensor sum = all.front().gradient;
  for (std::size_t replica = 1; replica < all.size(); ++replica) {
    // The sum so far moves to its place when that one's turn comes.
    at::Tensor target = static_cast<int>(replica) == own ? all[replica].gradient : sum;
    at::add_out(target, sum, all[replica].gradient);
    sum = target;
  }
}

void share_from(int own, std::span<const Contribution> all) {
  for (std::size_t replica = 0; replica < all.size(); ++replica) {
    if (static_cast<int>(replica) != own) all[replica].gradient.copy_(all[own].gradient);
  }
}

}  // namespace twobw::transport
