#include "train/trial.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "runtime/pipeline.h"
#include "train/setup.h"

namespace twobw::train {
namespace {

// Seconds from the first update's end to the last but one's: filling and draining are left out.
double steady_seconds(const Config& config) {
  Setup setup = prepare(config);
  choose_split(setup);
  std::mutex mutex;
  std::map<std::int64_t, double> ends;  // of updates, on the last worker
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
  return ends.at(kTrialUpdates - 2) - ends.at(0);
}

}  // namespace

std::vector<double> try_runs(const std::vector<Config>& runs, int rounds) {
  std::vector<double> seconds(runs.size());
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < runs.size(); ++i) {
      Config brief = runs[i];
      brief.train.updates = kTrialUpdates;
      brief.train.eval_every = 0;
      brief.pipeline.sync_updates = 0;
      seconds[i] += steady_seconds(brief);
    }
  }
  std::vector<double> rates;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const PipelineConfig& pipeline = runs[i].pipeline;
    const double tokens =
        1.0 * pipeline.microbatch * pipeline.microbatches * pipeline.replicas * runs[i].model.context;
    rates.push_back(rounds * (kTrialUpdates - 2) * tokens / seconds[i]);
  }
  return rates;
}

}  // namespace twobw::train
