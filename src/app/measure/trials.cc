#include "app/measure/trials.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <mutex>
#include <numeric>

#include "app/measure/split.h"
#include "core/base/gpu_name.h"
#include "engine/runtime/pipeline.h"
#include "engine/runtime/setup.h"

namespace twobw::measure {
namespace {

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Relative difference of two means that chance explains: twice the standard error of the difference, and more
// for few turns (expansion of Student's t).
double by_chance(const std::vector<std::vector<double>>& runs, int turns) {
  double squares = 0, degrees = 0;  // one variance for all runs
  for (const std::vector<double>& times : runs) {
    const double middle = mean(times);
    for (const double time : times) squares += (time / middle - 1) * (time / middle - 1);
    degrees += static_cast<double>(times.size()) - 1;
  }
  const double errors = 2 + 2.5 / degrees + 3.1 / (degrees * degrees);
  return errors * std::sqrt(squares / degrees * 2 / turns);
}

using Clock = std::chrono::steady_clock;

// Updates that drain the pipeline, see schedule::steady_state.
constexpr int kEmptying = 2;

bool on_gpu(const Config& config) {
  return !config.devices.empty() && names_gpu(config.devices.front());
}

// The last update before steady state; on a GPU, until all graphs are captured.
int last_filling(const Config& config) {
  return on_gpu(config) ? 2 : 1;
}

// A GPU affords more, relative to its startup.
int timed(const Config& config) {
  return on_gpu(config) ? 8 : 4;
}

// End of each update on the last worker.
std::map<std::int64_t, double> ends_of_updates(const Config& config) {
  runtime::Setup setup = runtime::prepare(config);
  choose_split(setup);
  std::mutex mutex;
  std::map<std::int64_t, double> ends;
  const runtime::Observer observer{.on_update =
                                       [&](const telemetry::StageUpdate& update) {
                                         std::lock_guard lock(mutex);
                                         double& end = ends[update.update];
                                         end = std::max(end, update.time);
                                       },
                                   .on_evaluation = [](const telemetry::Evaluation&) {}};
  runtime::Pipeline pipeline(setup, {}, observer);
  pipeline.run();
  return ends;
}

}  // namespace

std::vector<TrialResult> interleave_trials(std::size_t runs, const TrialBudget& budget,
                                           const std::function<Trial(std::size_t run)>& turn) {
  std::vector<TrialResult> results(runs);
  std::vector<std::vector<double>> times(runs);  // seconds per token, by run and turn
  std::vector<double> took(runs);                // the last time
  double spent = 0, next = 0;
  for (int round = 1; round <= kMostRounds && spent + next <= budget.seconds; ++round) {
    double best = 0;
    for (std::size_t i = 0; i < runs; ++i) {
      TrialResult& result = results[i];
      if (result.left_out) continue;
      const Trial made = turn(i);
      spent += took[i] = made.seconds;
      times[i].push_back(1 / made.tokens_per_s);
      result.turns = round;
      result.tokens_per_s = 1 / mean(times[i]);
      best = std::max(best, result.tokens_per_s);
    }
    const double margin = round == 1 ? 1 : by_chance(times, round);
    next = 0;
    int staying = 0;
    for (std::size_t i = 0; i < runs; ++i) {
      TrialResult& result = results[i];
      if (result.left_out) continue;
      result.left_out = result.tokens_per_s < best * (1 - std::max(budget.tolerance, margin));
      if (result.left_out) continue;
      next += took[i];
      ++staying;
    }
    if (staying == 1 || margin <= budget.tolerance) break;
  }
  return results;
}

int trial_updates(const Config& config) {
  return last_filling(config) + 1 + timed(config) + kEmptying;
}

Config trial_config(const Config& config) {
  Config brief = config;
  brief.train.updates = trial_updates(config);
  brief.train.eval_every = 0;
  brief.pipeline.sync_updates = 0;
  return brief;
}

double trial_rate(const Config& config, const std::map<std::int64_t, double>& ends) {
  const int first = last_filling(config), last = first + timed(config);
  return (last - first) * runtime::tokens_per_update(config) / (ends.at(last) - ends.at(first));
}

Trial try_run(const Config& config) {
  const auto begin = Clock::now();
  const double rate = trial_rate(config, ends_of_updates(trial_config(config)));
  return {.tokens_per_s = rate, .seconds = std::chrono::duration<double>(Clock::now() - begin).count()};
}

}  // namespace twobw::measure
