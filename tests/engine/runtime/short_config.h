// Configurations of short runs, for tests of pipelines.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "core/base/config.h"
#include "core/schedule/spec.h"
#include "planning/host/cores.h"

namespace twobw {

// Few updates of few microbatches, clipped.
inline void make_short(Config& config) {
  config.pipeline.microbatch = 2;
  config.pipeline.microbatches = 4;
  config.optimizer.warmup = 2;
  config.optimizer.lr = 1e-2;
  config.optimizer.clip = 0.5;
  config.train.updates = 6;
  config.train.eval_every = 3;
  config.train.eval_microbatches = 2;
}

// A tiny GPT with dropout and a tie. `split`: of 12 layers: embedding, 2 x 5, head.
inline Config short_config(std::string_view schedule, std::vector<int> split, int replicas,
                           int microbatches) {
  Config config;
  config.model = {
      .layers = 2, .width = 16, .heads = 2, .vocab = 37, .context = 8, .tied = true, .dropout = 0.1};
  make_short(config);
  config.pipeline.schedule = schedule::parse_kind(schedule);
  config.pipeline.stages = static_cast<int>(split.size());
  config.pipeline.split = std::move(split);
  config.pipeline.replicas = replicas;
  config.pipeline.microbatches = microbatches;
  return config;
}

// All workers on the same core: of several cores sums round otherwise, with 16 bits GPUs would be taken where
// there are any, and a worker with all cores starts a team of threads, which the thread sanitizer cannot
// follow.
inline void put_on_one_core(Config& config) {
  config.devices.assign(static_cast<std::size_t>(config.pipeline.workers()), device::core_names().front());
}

}  // namespace twobw
