// Trials: plans with similar forecasts run for a few updates each, and the fastest is chosen. The model does
// not know how much is lost when devices of varying speed wait for each other.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "core/base/config.h"

namespace twobw::measure {

struct Trial {
  double tokens_per_s = 0;
  double seconds = 0;  // with setup
};

struct TrialResult {
  double tokens_per_s = 0;  // mean over its turns
  int turns = 0;
  bool left_out = false;  // significantly slower than the fastest
};

struct TrialBudget {
  double seconds = 0;    // a round starts only if it fits
  double tolerance = 0;  // share of the fastest rate within which runs count as equal
};

// Interleaves the runs in 1 to kMostRounds rounds, since speed varies over time. From the second round on,
// runs that are slower than the fastest beyond chance are left out. Ends with one run, or with runs known to
// be within the tolerance, which have had the same rounds.
std::vector<TrialResult> interleave_trials(std::size_t runs, const TrialBudget& budget,
                                           const std::function<Trial(std::size_t run)>& turn);

inline constexpr int kMostRounds = 20;

// Runs a configuration for a few updates, without its synchronous start.
Trial try_run(const Config& config);

// The configuration of a trial: few updates, without evaluation.
int trial_updates(const Config& config);
Config trial_config(const Config& config);

// Tokens per second in steady state. `ends`: end of each update on the last worker, in seconds.
double trial_rate(const Config& config, const std::map<std::int64_t, double>& ends);

}  // namespace twobw::measure
