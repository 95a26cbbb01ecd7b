// Memory of replicas with a sharded optimizer state, against the planner's forecast.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "engine/models/model.h"
#include "engine/optim/state.h"
#include "planning/planner/costs/memory_model.h"
#include "planning/planner/costs/state_bytes.h"
#include "tests/engine/runtime/recorder.h"

namespace twobw::runtime {

// For a run with a split and an optimizer with two moments.
inline void expect_memory_of_shards(const Config& config) {
  Recorder recorder;
  run_recorded(config, nullptr, recorder);
  const PipelineShape& shape = config.pipeline;
  const models::Model model = models::build(config.model);
  const planner::StateBytes bytes = planner::state_bytes(config);
  for (int stage = 0; stage < shape.stages; ++stage) {
    const weights::Layout layout(model.layers, shape.first_layer(stage), shape.last_layer(stage));
    const std::vector<weights::Range> shards = optim::shards_of(config.optimizer, layout, shape.replicas);
    const double size = static_cast<double>(layout.size());
    const Footprint forecast =
        planner::footprint({.shape = shape}, stage, {.parameters = size, .gradient_parameters = size}, bytes,
                           /*recompute=*/false);
    for (int replica = 0; replica < shape.replicas; ++replica) {
      const Footprint& seen = recorder.updates.at({config.train.updates - 1, replica, stage}).peak;
      const double part = static_cast<double>(shards[replica].count);
      EXPECT_EQ(seen[Term::Master], 4 * part);
      EXPECT_EQ(seen[Term::Optimizer], 8 * part);
      EXPECT_NEAR(seen[Term::Master] / forecast[Term::Master], 1, 0.02);
      EXPECT_NEAR(seen[Term::Optimizer] / forecast[Term::Optimizer], 1, 0.02);
      EXPECT_EQ(seen[Term::Weights], forecast[Term::Weights]);
      EXPECT_EQ(seen[Term::Gradients], forecast[Term::Gradients]);
    }
  }
}

}  // namespace twobw::runtime
