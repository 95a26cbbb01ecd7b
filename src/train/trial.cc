#include "train/trial.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>

#include "base/gpu_name.h"
#include "runtime/pipeline.h"
#include "train/setup.h"

namespace twobw::train {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTimed = 4;  // updates
constexpr int kEnds = 2;   // the first, which fills the pipeline, and the last, which drains it

// Updates that are not of the steady state besides: on a GPU, while graphs are captured.
int settling(const Config& config) {
  return !config.devices.empty() && names_gpu(config.devices.front()) ? 2 : 0;
}

// When each update ended on the last worker.
std::map<std::int64_t, double> ends_of_updates(const Config& config) {
  Setup setup = prepare(config);
  choose_split(setup);
  std::mutex mutex;
  std::map<std::int64_t, double> ends;
  const runtime::Listener listener{.on_update =
                                       [&](const telemetry::StageUpdate& update) {
                                         std::lock_guard lock(mutex);
                                         double& end = ends[update.update];
                                         end = std::max(end, update.time);
                                       },
                                   .on_evaluation = [](const telemetry::Evaluation&) {}};
  runtime::Pipeline pipeline(setup.config, setup.model, *setup.training, *setup.validation, setup.pipeline(),
                             listener);
  pipeline.run();
  return ends;
}

}  // namespace

int trial_updates(const Config& config) {
  return settling(config) + kTimed + kEnds;
}

Turn try_run(const Config& config) {
  const auto begin = Clock::now();
  Config brief = config;
  brief.train.updates = trial_updates(config);
  brief.train.eval_every = 0;
  brief.pipeline.sync_updates = 0;
  const auto ends = ends_of_updates(brief);
  const PipelineConfig& pipeline = config.pipeline;
  const double tokens =
      1.0 * pipeline.microbatch * pipeline.microbatches * pipeline.replicas * config.model.context;
  const int first = settling(config);
  return {.tokens_per_s = kTimed * tokens / (ends.at(first + kTimed) - ends.at(first)),
          .seconds = std::chrono::duration<double>(Clock::now() - begin).count()};
}

}  // namespace twobw::train
