#include "engine/transport/replica_sum.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "core/base/error.h"
#include "engine/optim/kernels.h"

namespace twobw::transport {
namespace {

constexpr std::int64_t kPart = 1 << 18;   // elements a thread takes at a time
constexpr std::int64_t kBlock = 1 << 12;  // elements whose sum stays in the L1 cache

// Ranges small enough for one thread to take at a time.
SumRanges split_ranges(const SumRanges& ranges) {
  SumRanges parts;
  for (const SumRange& range : ranges) {
    for (std::int64_t begin = range.begin; begin < range.end(); begin += kPart)
      parts.push_back({.begin = begin, .count = std::min(kPart, range.end() - begin), .owner = range.owner});
  }
  return parts;
}

class CoreSum final : public ReplicaSum {
 public:
  CoreSum(std::vector<Contribution> all, const SumRanges& ranges) : all_(std::move(all)) {
    const std::int64_t size = all_.front().gradient.numel();
    parts_ = split_ranges(ranges.empty() ? SumRanges{{.count = size}} : ranges);
    if (parts_.empty()) parts_.emplace_back();  // so that one caller ends last
  }

  // True for the thread that ends last: the buffers hold the sum.
  bool advance() override {
    bool last = false;
    for (std::size_t part = begun_++; part < parts_.size(); part = begun_++) {
      add_up(parts_[part]);
      last = ended_.fetch_add(1, std::memory_order_acq_rel) + 1 == parts_.size();
    }
    return last;
  }

  void then(int, const std::function<void()>& work) override { work(); }

  void share(int replica, std::int64_t offset, std::int64_t count) const override {
    const at::Tensor values = all_[replica].gradient.narrow(0, offset, count);
    for (std::size_t other = 0; other < all_.size(); ++other) {
      if (static_cast<int>(other) != replica) all_[other].gradient.narrow(0, offset, count).copy_(values);
    }
  }

  void for_each(const Visit& visit) const override {
    for (int replica = 0; replica < std::ssize(all_); ++replica) visit(replica, all_[replica]);
  }

 private:
  void add_up(const SumRange& part) const {
    if (all_.size() == 1) return;
    std::array<float, kBlock> sum;
    for (std::int64_t begin = part.begin; begin < part.end(); begin += kBlock) {
      const std::int64_t count = std::min(kBlock, part.end() - begin);
      std::copy_n(all_.front().gradient.const_data_ptr<float>() + begin, count, sum.begin());
      for (std::size_t replica = 1; replica < all_.size(); ++replica) {
        const float* values = all_[replica].gradient.const_data_ptr<float>() + begin;
        optim::add(sum.data(), values, count);
      }
      for (int replica = 0; replica < std::ssize(all_); ++replica) {
        if (part.owner != SumRange::kAll && part.owner != replica) continue;
        std::copy_n(sum.begin(), count, all_[replica].gradient.mutable_data_ptr<float>() + begin);
      }
    }
  }

  std::vector<Contribution> all_;
  SumRanges parts_;
  std::atomic<std::size_t> begun_ = 0, ended_ = 0;
};

}  // namespace

MakeSum sums_on_cores(SumRanges ranges) {
  return [ranges = std::move(ranges)](std::vector<Contribution> all) {
    return std::make_shared<CoreSum>(std::move(all), ranges);
  };
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
