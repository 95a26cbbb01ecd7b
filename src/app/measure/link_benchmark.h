// Latency and bandwidth of a link: between two processes over a Wire, or between two workers of a process.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/device/device.h"
#include "engine/transport/wire.h"
#include "planning/planner/costs/profile.h"
#include "planning/planner/hardware/cluster.h"

namespace twobw::measure {

// Repeated measurements.
class Samples {
 public:
  void add(double value) { values_.push_back(value); }

  // Zero without samples.
  planner::Measured summary() const {
    std::vector<double> sorted = values_;
    std::sort(sorted.begin(), sorted.end());
    return {.median = quantile(sorted, 0.5), .spread = (quantile(sorted, 0.75) - quantile(sorted, 0.25)) / 2};
  }

 private:
  static double quantile(const std::vector<double>& sorted, double fraction) {
    if (sorted.empty()) return 0;
    const double place = fraction * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const double above = sorted[std::min(below + 1, sorted.size() - 1)];
    return sorted[below] + (place - static_cast<double>(below)) * (above - sorted[below]);
  }

  std::vector<double> values_;
};

struct WireLink {
  double latency = 0;    // seconds, one way
  double one_way = 0;    // bytes per second, in one direction at a time
  double both_ways = 0;  // bytes per second in each direction, both at once
};

// An end of a link. The asking rank sends on `there` and receives on `back`, like activations and gradients.
struct LinkEnd {
  transport::Wire& there;
  transport::Wire& back;
  int peer = 0;
  std::function<double()> now;      // seconds; used by the asking rank
  at::Device device = at::kCPU;     // of the timed tensors
  std::int64_t largest = 16 << 20;  // bytes of a tensor
};

// Called by the two ranks; `ask` measures. Medians of round trips and of growing tensors; bandwidths are
// those of the largest that fits into `seconds`.
WireLink ask(const LinkEnd& end, double seconds);
void answer(const LinkEnd& end);

// The planner's link. Its bandwidth is that of a direction while the other is full, since activations and
// gradients cross at the same time: less than one way on links that share a bus or a copying core.
planner::LinkSpec spec_of(const WireLink& link);

// "10 Gbit/s", "94.1 Mbit/s"; "25 us", "1.2 ms".
std::string format_bandwidth(double bytes_per_second);
std::string format_latency(double seconds);

// The link between two workers of a process, which hands over a pointer. Latency: until the waiting worker
// continues. Bandwidth: at which its core reads `bytes` written by another core, or a GPU copies them.
// Nothing if there is only one core.
std::optional<planner::LinkSpec> measure_local_link(const device::Device& device, double bytes);

}  // namespace twobw::measure
