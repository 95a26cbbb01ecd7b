#include <algorithm>
#include <array>
#include <atomic>

#include "optim/kernels.h"
#include "transport/replica_sum.h"

namespace twobw::transport {
namespace {

constexpr std::int64_t kPart = 1 << 18;   // elements a thread takes at a time
constexpr std::int64_t kBlock = 1 << 12;  // elements whose sum stays in the nearest cache

class CoreSum final : public ReplicaSum {
 public:
  explicit CoreSum(std::vector<Contribution> all)
      : all_(std::move(all)),
        size_(all_.front().gradient.numel()),
        parts_(std::max<std::int64_t>((size_ + kPart - 1) / kPart, 1)) {}

  // True for the thread that ends last: every buffer holds the sum then.
  bool help() override {
    bool last = false;
    for (std::int64_t part = begun_++; part < parts_; part = begun_++) {
      add_up(part * kPart, std::min(size_, (part + 1) * kPart));
      last = ended_.fetch_add(1, std::memory_order_acq_rel) + 1 == parts_;
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

 private:
  void add_up(std::int64_t begin, std::int64_t end) const {
    if (all_.size() == 1) return;
    std::array<float, kBlock> sum;
    for (; begin < end; begin += kBlock) {
      const std::int64_t count = std::min(kBlock, end - begin);
      std::copy_n(all_.front().gradient.const_data_ptr<float>() + begin, count, sum.begin());
      for (std::size_t replica = 1; replica < all_.size(); ++replica) {
        const float* values = all_[replica].gradient.const_data_ptr<float>() + begin;
        optim::add(sum.data(), values, count);
      }
      for (const Contribution& contribution : all_)
        std::copy_n(sum.begin(), count, contribution.gradient.mutable_data_ptr<float>() + begin);
    }
  }

  std::vector<Contribution> all_;
  std::int64_t size_, parts_;
  std::atomic<std::int64_t> begun_ = 0, ended_ = 0;
};

}  // namespace

MakeSum sums_on_cores() {
  return [](std::vector<Contribution> all) { return std::make_shared<CoreSum>(std::move(all)); };
}

}  // namespace twobw::transport
