#include "app/measure/trial_run.h"

#include <algorithm>
#include <chrono>
#include <mutex>

#include "app/measure/split.h"
#include "core/base/gpu_name.h"
#include "engine/runtime/pipeline.h"
#include "engine/runtime/setup.h"

namespace twobw::measure {
namespace {

using Clock = std::chrono::steady_clock;

// Updates while the pipeline empties, see schedule::steady_state.
constexpr int kEmptying = 2;

bool on_gpu(const Config& config) {
  return !config.devices.empty() && names_gpu(config.devices.front());
}

// The last update while it fills; on a GPU until all graphs are captured.
int last_filling(const Config& config) {
  return on_gpu(config) ? 2 : 1;
}

// On a GPU there is time for more beside what it takes to begin.
int timed(const Config& config) {
  return on_gpu(config) ? 8 : 4;
}

// When each update ended on the last worker.
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
  runtime::Pipeline pipeline(setup.config, setup.model, *setup.training, *setup.validation, setup.pipeline(),
                             observer);
  pipeline.run();
  return ends;
}

}  // namespace

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
