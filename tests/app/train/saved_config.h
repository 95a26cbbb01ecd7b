// A small run on two stages, with dropout and a tie, that saves every other update.
#pragma once

#include <string>

#include "core/base/config.h"
#include "core/schedule/spec.h"

namespace twobw::train {

inline Config saved_config(const std::string& run_dir, const std::string& schedule = "2bw") {
  Config config;
  config.model = {
      .layers = 1, .width = 16, .heads = 2, .vocab = 37, .context = 8, .tied = true, .dropout = 0.1};
  config.pipeline.schedule = schedule::parse_kind(schedule);
  config.pipeline.stages = 2;
  config.pipeline.split = {3, 4};
  config.pipeline.microbatch = 1;
  config.pipeline.microbatches = 4;
  config.optimizer.warmup = 2;
  config.train.updates = 9;
  config.train.eval_every = 3;
  config.train.eval_microbatches = 1;
  config.checkpoint.every_updates = 2;
  config.checkpoint.keep = 10;
  config.run_dir = run_dir;
  return config;
}

}  // namespace twobw::train
