#include "inference/gpu/told_tokens.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "device/gpu.h"

namespace twobw::inference {
namespace {

constexpr std::int64_t kNotYet = -1;

std::int64_t look_at(std::int64_t& token) {
  return std::atomic_ref(token).load(std::memory_order_acquire);
}

// A moment in which the core's other thread has it to itself.
void pause_a_moment() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

// Looks often at first; where a step takes long, the core is for others.
class Patience {
 public:
  void wait(const std::function<cudaError_t()>& query) {
    constexpr int kLooks = 1000;  // some 20 to 50 us
    constexpr std::chrono::microseconds kSoon{2000}, kBetween{50};
    pause_a_moment();
    if (++looks_ % kLooks != 0 && !is_long_) return;
    is_long_ = is_long_ || std::chrono::steady_clock::now() - begin_ > kSoon;
    if (is_long_) std::this_thread::sleep_for(kBetween);
    const cudaError_t state = query();
    if (state == cudaErrorNotReady) return;
    device::check_cuda(state, "a step");
    if (gpu_is_done_) fail_run("the GPU has done a step and has not told its tokens");
    gpu_is_done_ = true;  // before the last look
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  int looks_ = 0;
  bool is_long_ = false, gpu_is_done_ = false;
};

}  // namespace

ToldTokens::ToldTokens(std::int64_t slots, std::int64_t rows) : rows_(rows) {
  void *host = nullptr, *on_gpu = nullptr;
  const auto bytes = static_cast<std::size_t>(slots * rows) * sizeof(std::int64_t);
  device::check_cuda(cudaHostAlloc(&host, bytes, cudaHostAllocMapped), "pinned memory for tokens");
  host_.reset(static_cast<std::int64_t*>(host));
  device::check_cuda(cudaHostGetDevicePointer(&on_gpu, host, 0), "pinned memory for tokens");
  on_gpu_ = static_cast<std::int64_t*>(on_gpu);
  clear(0, slots);
}

void ToldTokens::clear(std::int64_t first, std::int64_t count) {
  for (std::int64_t i = first * rows_; i < (first + count) * rows_; ++i)
    std::atomic_ref(host_[i]).store(kNotYet, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

std::vector<std::int64_t> ToldTokens::await(std::int64_t slot,
                                            const std::function<cudaError_t()>& query) const {
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(rows_), kNotYet);
  Patience patience;
  for (std::int64_t row = 0; row < rows_; ++row) {
    std::int64_t& token = tokens[static_cast<std::size_t>(row)];
    while ((token = look_at(host_[slot * rows_ + row])) == kNotYet) patience.wait(query);
  }
  return tokens;
}

}  // namespace twobw::inference
