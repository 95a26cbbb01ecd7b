#include "transport/replica_group.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace twobw::transport {
namespace {

constexpr std::int64_t kPart = 1 << 18;   // elements a thread takes at a time
constexpr std::int64_t kBlock = 1 << 12;  // elements whose sum stays in the nearest cache

}  // namespace

ReplicaSum::ReplicaSum(std::vector<Contribution> all)
    : all_(std::move(all)),
      size_(all_.front().gradient.numel()),
      parts_(std::max<std::int64_t>((size_ + kPart - 1) / kPart, 1)) {}

bool ReplicaSum::help() {
  bool last = false;
  for (std::int64_t part = begun_++; part < parts_; part = begun_++) {
    add_up(part * kPart, std::min(size_, (part + 1) * kPart));
    last = ended_.fetch_add(1, std::memory_order_acq_rel) + 1 == parts_;
  }
  return last;
}

void ReplicaSum::add_up(std::int64_t begin, std::int64_t end) const {
  if (all_.size() == 1) return;
  std::array<float, kBlock> sum;
  for (; begin < end; begin += kBlock) {
    const std::int64_t count = std::min(kBlock, end - begin);
    std::copy_n(all_.front().gradient.const_data_ptr<float>() + begin, count, sum.begin());
    for (std::size_t replica = 1; replica < all_.size(); ++replica) {
      const float* values = all_[replica].gradient.const_data_ptr<float>() + begin;
      for (std::int64_t i = 0; i < count; ++i) sum[i] += values[i];
    }
    for (const Contribution& contribution : all_)
      std::copy_n(sum.begin(), count, contribution.gradient.mutable_data_ptr<float>() + begin);
  }
}

double ReplicaSum::loss() const {
  double sum = 0;
  for (const Contribution& contribution : all_) sum += contribution.loss;
  return sum;
}

void ReplicaSum::share(int replica, std::int64_t offset, std::int64_t count) const {
  const at::Tensor values = all_[replica].gradient.narrow(0, offset, count);
  for (std::size_t other = 0; other < all_.size(); ++other) {
    if (static_cast<int>(other) != replica) all_[other].gradient.narrow(0, offset, count).copy_(values);
  }
}

std::shared_ptr<ReplicaSum> ReplicaGroup::contribute(std::int64_t update, int replica, Contribution own) {
  std::shared_ptr<ReplicaSum> sum;
  hub_.update([&] {
    Entry& entry = entries_[update];
    const bool fresh = entry.parts.emplace(replica, std::move(own)).second;
    TWOBW_ASSERT(fresh, "replica {} contributed twice to update {}", replica, update);
    if (static_cast<int>(entry.parts.size()) < replicas_) return;
    std::vector<Contribution> all;
    for (const auto& [from, contribution] : entry.parts) all.push_back(contribution);
    sum = entry.sum = std::make_shared<ReplicaSum>(std::move(all));
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
