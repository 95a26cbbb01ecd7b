// Bytes of training state a parameter.
#pragma once

#include <string>

#include "base/config.h"
#include "planner/costs/layer_costs.h"

namespace twobw::planner {

// What the optimizer of such a run keeps a parameter. `delayed`: the schedule may delay updates, so
// that the corrections for it are on. `predicts`: what is computed with is predicted, and the true weights
// are a master.
StateBytes state_bytes(const OptimizerConfig& optimizer, const std::string& precision, bool delayed,
                       bool predicts);
// Under the configuration's own schedule.
StateBytes state_bytes(const Config& config);

}  // namespace twobw::planner
