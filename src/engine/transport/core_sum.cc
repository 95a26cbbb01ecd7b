#include <algorithm>
#include <array>
#include <atomic>

#include "engine/optim/kernels.h"
#include "engine/transport/replica_sum.h"

namespace twobw::transport {
namespace {

constexpr std::int64_t kPart = 1 << 18;   // elements a thread takes at a time
constexpr std::int64_t kBlock = 1 << 12;  // elements whose sum stays in the nearest cache

// Few enough elements for one thread to take at a time.
SumRanges cut_up(const SumRanges& ranges) {
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
    parts_ = cut_up(ranges.empty() ? SumRanges{{.count = size}} : ranges);
    if (parts_.empty()) parts_.emplace_back();  // for somebody to end last
  }

  // True for the thread that ends last: the buffers hold the sum then.
  bool help() override {
    bool last = false;
    for (std::size_t part = begun_++; part < parts_.size(); part = begun_++) {
      add_up(parts_[part]);
      last = ended_.fetch_add(1, std::memory_order_acq_rel) + 1 == parts_.size();
    }
    return last;
  }

  void afterwards(int, const std::function<void()>& work) override { work(); }

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

}  // namespace twobw::transport
