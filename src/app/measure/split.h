// Splits layers into stages for pipeline.split: auto.
#pragma once

#include <vector>

#include "core/schedule/spec.h"
#include "engine/runtime/setup.h"
#include "planning/planner/costs/layer_costs.h"

namespace twobw::measure {

// The planner's fastest split for equal devices without memory limits and with free links. `costs` has one
// column, for the schedule's microbatch size.
std::vector<int> fastest_split(const schedule::Spec& spec, const std::vector<planner::LayerShape>& layers,
                               const planner::CostTable& costs);

// Measures every kind of layer and the optimizer step on the first stage's device, and sets the split of
// setup.spec and setup.layer_seconds. Does nothing if the split is set.
void choose_split(runtime::Setup& setup);

}  // namespace twobw::measure
