// Bytes of training state a parameter.
#pragma once

#include <string>

#include "core/base/config.h"
#include "planning/planner/costs/layer_costs.h"

namespace twobw::planner {

// `predicts`: batches begin on predicted weights, and the true weights are a master copy.
StateBytes state_bytes(const OptimizerConfig& optimizer, const std::string& precision, bool predicts);
// Under the configuration's own schedule.
StateBytes state_bytes(const Config& config);

}  // namespace twobw::planner
