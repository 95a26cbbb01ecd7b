#include "app/measure/link_profile.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <span>
#include <thread>

#include "app/measure/samples.h"
#include "core/base/threads.h"
#include "engine/device/cpu.h"
#include "engine/transport/link.h"
#include "engine/transport/wait_hub.h"

namespace twobw::measure {
namespace {

using Clock = std::chrono::steady_clock;
using transport::Tag;

constexpr int kTurns = 200, kReads = 30;
constexpr double kTimeout = 60;  // seconds

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Seconds to read all of it.
double time_read(const at::Tensor& tensor) {
  const std::span values(tensor.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(tensor.numel()));
  const auto begin = Clock::now();
  const volatile std::int64_t sum = std::reduce(values.begin(), values.end());
  static_cast<void>(sum);
  return seconds_since(begin);
}

std::optional<int> other_core(const device::CoreSet& cores) {
  for (const int core : device::available_cores()) {
    if (std::find(cores.cores.begin(), cores.cores.end(), core) == cores.cores.end()) return core;
  }
  if (cores.cores.size() > 1) return cores.cores.back();
  return std::nullopt;
}

// The two ends of a link and of one back.
class Pair {
 public:
  // The near worker: a word there and back, then tensors there and a word back.
  double play_near(std::int64_t elements) {
    Samples turns;
    const at::Tensor word = at::zeros({1}, at::kLong);
    for (int i = 0; i < kTurns; ++i) {
      const auto begin = Clock::now();
      there_->send({Tag::Kind::Activation, i}, {word});
      back_->receive({Tag::Kind::Gradient, i});
      turns.add(seconds_since(begin) / 2);
    }
    for (int i = kTurns; i < kTurns + kReads; ++i) {
      there_->send({Tag::Kind::Activation, i}, {at::full({elements}, i, at::kLong)});
      back_->receive({Tag::Kind::Gradient, i});
    }
    return turns.summary().median;
  }

  double play_far() {
    Samples reads;
    for (int i = 0; i < kTurns + kReads; ++i) {
      const at::Tensor received = there_->receive({Tag::Kind::Activation, i}).front();
      if (i >= kTurns) reads.add(time_read(received));
      back_->send({Tag::Kind::Gradient, i}, {received});
    }
    return reads.summary().median;
  }

 private:
  transport::WaitHub hub_{std::chrono::duration<double>(kTimeout)};
  std::unique_ptr<transport::Link> there_ = transport::local_link(hub_), back_ = transport::local_link(hub_);
};

// Between slices of a GPU the address changes hands, and the receiver copies what lies there: a word and
// `bytes`, by the device's own clock.
planner::LinkSpec measure_on_gpu(const device::Device& device, double bytes) {
  const device::DeviceBinding binding("link", device);
  const auto time_copy = [&](std::int64_t elements) {
    const at::Tensor from = at::zeros({elements}, binding.compute("fp32").dtype(at::kByte)),
                     to = at::empty_like(from);
    Samples copies;
    for (int i = 0; i < kReads; ++i) {
      const device::Timestamp begin = binding.clock().now();
      to.copy_(from);
      const device::Timestamp end = binding.clock().now();
      binding.clock().await(end);
      copies.add(binding.clock().between(begin, end));
    }
    return copies.summary().median;
  };
  const double latency = time_copy(1), all = time_copy(static_cast<std::int64_t>(bytes));
  return {.latency = latency, .bandwidth = bytes / std::max(all - latency, 1e-9)};
}

}  // namespace

std::optional<planner::LinkSpec> measure_local_link(const device::Device& device, double bytes) {
  if (device.gpu) {
    planner::LinkSpec link;
    std::jthread([&] { link = measure_on_gpu(device, std::max(bytes, 65536.0)); }).join();
    return link;
  }
  const device::CoreSet& cores = device.cores;
  const auto far = other_core(cores);
  if (!far || cores.cores.empty()) return std::nullopt;
  const auto elements = std::max<std::int64_t>(8192, static_cast<std::int64_t>(bytes) / 8);
  Pair pair;
  double latency = 0, seconds = 0;
  run_on_threads(2, [&](int end) {
    if (end == 0) {
      device::bind_thread("link near", {.cores = {cores.cores.front()}});
      latency = pair.play_near(elements);
    } else {
      device::bind_thread("link far", {.cores = {*far}});
      seconds = pair.play_far();
    }
  });
  return planner::LinkSpec{.latency = latency, .bandwidth = 8.0 * static_cast<double>(elements) / seconds};
}

}  // namespace twobw::measure
