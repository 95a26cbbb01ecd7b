// The layers of each stage, where the configuration leaves them open (pipeline.split: auto).
#pragma once

#include <vector>

#include "core/schedule/spec.h"
#include "engine/runtime/setup.h"
#include "planning/planner/costs/layer_costs.h"

namespace twobw::measure {

// The planner's split for equal devices with memory enough and free links: the one with the shortest update.
// `costs` has one column, of the microbatches that the schedule runs.
std::vector<int> fastest_split(const schedule::Spec& spec, const std::vector<planner::LayerShape>& layers,
                               const planner::CostTable& costs);

// Measures on the first stage's device: forward and backward of every kind of layer, and the optimizer's
// step. Fills the split of setup.spec and setup.layer_seconds; does nothing when the split is given.
void choose_split(runtime::Setup& setup);

}  // namespace twobw::measure
