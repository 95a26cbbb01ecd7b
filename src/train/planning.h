// What the planner wants to know of a model that has been built; of one that is only configured,
// planner/modelled.h says the same.
#pragma once

#include <string>
#include <vector>

#include "base/config.h"
#include "models/layer.h"
#include "planner/costs.h"

namespace twobw::train {

// The kind of every layer, in order.
std::vector<std::string> layer_kinds(const models::LayerList& model);

// What one parameter costs in this configuration's precision and optimizer.
planner::StateBytes state_bytes(const Config& config);

// Every layer's parameters, and those of them shared with another layer.
std::vector<planner::LayerShape> layer_shapes(const models::LayerList& model);

}  // namespace twobw::train
