#include "core/simulator/simulate.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/base/error.h"
#include "core/simulator/discrete_events.h"

namespace twobw::simulator {
namespace {

using schedule::Spec;

constexpr double kSameTime = 1e-9;  // relative

void check(const Spec& spec, const System& system) {
  schedule::validate(spec);
  TWOBW_ASSERT(std::ssize(system.stages) == spec.shape.stages &&
                   std::ssize(system.boundaries) == spec.shape.stages - 1,
               "{} stages, but times of {} and {} boundaries", spec.shape.stages, system.stages.size(),
               system.boundaries.size());
  const auto check_channel = [&](int channel) {
    TWOBW_ASSERT(channel >= -1 && channel < std::ssize(system.channels), "channel {} of {}", channel,
                 system.channels.size());
  };
  for (const Boundary& boundary : system.boundaries) {
    check_channel(boundary.forward_channel);
    check_channel(boundary.backward_channel);
  }
  check_channel(system.tie_forward_channel);
  check_channel(system.tie_backward_channel);
  for (const Channel& channel : system.channels) {
    TWOBW_ASSERT(channel.bandwidth > 0 && channel.latency >= 0, "bandwidth {}, latency {}", channel.bandwidth,
                 channel.latency);
  }
}

// Batches to measure: the `period` up to `last` repeats forever.
struct Window {
  std::int64_t last = 0;
  std::int64_t period = 0;

  explicit operator bool() const { return period > 0; }
};

// Batches that the microbatches in flight spread over, beside the first.
std::int64_t depth_in_batches(const Spec& spec) {
  return 1 + (spec.shape.stages + spec.shape.extra) / spec.shape.microbatches;
}

// Batches to simulate before an average must do: enough for every period that a window of d+e microbatches
// can cause, but in large cases no more than take some hundredths of a second.
std::int64_t patience(const Spec& spec) {
  constexpr std::int64_t affordable = 1 << 18;
  const std::int64_t work = static_cast<std::int64_t>(spec.shape.stages) * spec.shape.microbatches;
  const std::int64_t window = spec.shape.stages + spec.shape.extra;
  return 2 * depth_in_batches(spec) + std::clamp(affordable / work, std::int64_t{6}, 4 * window + 6);
}

// True if every stage took as long for `batch`, and waited as long for its neighbors, as for the batch
// `period` before. Stage 0 alone does not suffice: its batches may be equal while those of others drift.
bool repeats(const DiscreteEvents& events, int stages, std::int64_t batch, std::int64_t period) {
  const auto took = [&](int r, std::int64_t j) {
    return events.batch_end(r, j).time - events.batch_end(r, j - 1).time;
  };
  const auto waited = [&](int r, std::int64_t j) {
    return events.batch_end(r, j).use.wait_gradient - events.batch_end(r, j - 1).use.wait_gradient;
  };
  for (int r = 0; r < stages; ++r) {
    const double tolerance = kSameTime * took(r, batch);
    if (std::abs(took(r, batch) - took(r, batch - period)) > tolerance ||
        std::abs(waited(r, batch) - waited(r, batch - period)) > tolerance)
      return false;
  }
  return true;
}

// The shortest period with which the last batches repeat, without the first two, which fill the pipeline.
Window find_period(const DiscreteEvents& events, int stages, std::int64_t last, std::int64_t depth) {
  for (std::int64_t period = 1; last - period - std::max(period, depth) >= 1; ++period) {
    std::int64_t same = 0;
    while (same < std::max(period, depth) && repeats(events, stages, last - same, period)) ++same;
    if (same == std::max(period, depth)) return {last, period};
  }
  return {};
}

StageUse use_between(const BatchEnd& begin, const BatchEnd& end, double updates) {
  StageUse use;
  for (double StageUse::*field : {&StageUse::forward, &StageUse::backward, &StageUse::step,
                                  &StageUse::handing_over, &StageUse::wait_activation,
                                  &StageUse::wait_gradient, &StageUse::wait_reduce, &StageUse::wait_other}) {
    use.*field = (end.use.*field - begin.use.*field) / updates;
  }
  const double busy = use.forward + use.backward + use.step + use.handing_over;
  const double all = (end.time - begin.time) / updates;
  use.utilisation = all > 0 ? busy / all : 0;
  return use;
}

void measure_steady_state(Spec spec, const System& system, Result& result) {
  spec.sync_updates = 0;
  spec.evaluate_every = 0;
  spec.updates = std::numeric_limits<std::int64_t>::max() / spec.shape.microbatches;
  DiscreteEvents events(spec, system, {.batch_ends = true});
  const std::int64_t most = patience(spec), depth = depth_in_batches(spec);
  Window window;
  for (std::int64_t batch = 0; !window && batch < most; ++batch) {
    events.run_batch();
    window = find_period(events, spec.shape.stages, batch, depth);
  }
  if (!window) window = {most - 1, most - 1 - most / 3};

  const std::int64_t first = window.last - window.period;
  const auto updates = static_cast<double>(window.period);
  result.update_seconds = (events.batch_end(0, window.last).time - events.batch_end(0, first).time) / updates;
  for (int r = 0; r < spec.shape.stages; ++r) {
    result.stages.push_back(
        use_between(events.batch_end(r, first), events.batch_end(r, window.last), updates));
  }
}

}  // namespace

double steady_update_seconds(const Spec& spec, const System& system) {
  check(spec, system);
  Result result;
  measure_steady_state(spec, system, result);
  return result.update_seconds;
}

Result simulate(const Spec& spec, const System& system, bool keep_events) {
  check(spec, system);
  Result result;
  measure_steady_state(spec, system, result);
  DiscreteEvents whole(spec, system, {.events = keep_events});
  whole.run();
  result.total_seconds = whole.time();
  result.events = whole.take_events();
  return result;
}

// Scatters the sums in n-1 rounds of one n-th each, and gathers them in as many.
double ring_all_reduce(double bytes, int devices, const Channel& channel) {
  const double rounds = 2.0 * (devices - 1);
  return rounds * (channel.latency + bytes / devices / channel.bandwidth);
}

// The devices of a node scatter their sums, so that each has a share of the bytes. The rings between nodes,
// one per share, run side by side over the node's one link and together carry all bytes. Then the devices
// gather. Scattering and gathering inside a node take as long as a ring.
double hierarchical_all_reduce(double bytes, int nodes, int devices_per_node, const Channel& inside,
                               const Channel& between) {
  return ring_all_reduce(bytes, devices_per_node, inside) + ring_all_reduce(bytes, nodes, between);
}

}  // namespace twobw::simulator
