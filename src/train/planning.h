// Between configurations and the planner: what it is asked for a configuration, and what its answer
// changes in one.
#pragma once

#include <string>
#include <vector>

#include "base/config.h"
#include "models/layer.h"
#include "planner/plan.h"

namespace twobw::train {

// The kind of every layer, in order.
std::vector<std::string> layer_kinds(const models::LayerList& model);

// What one parameter costs in this configuration's precision and optimizer.
planner::StateBytes state_bytes(const Config& config);

// Every layer's parameters, and those of them shared with another layer.
std::vector<planner::LayerShape> layer_shapes(const models::LayerList& model);

// All that a configuration says; the cluster and its devices' costs are the caller's. The batch is the
// configuration's own: microbatch x microbatches x replicas.
planner::Problem make_problem(const Config& config, const models::LayerList& model, planner::Cluster cluster,
                              std::vector<planner::CostTable> costs);

// The plan that a configuration describes, with its forecast: the planner places it, and cuts it where the
// configuration leaves the split open. The problem is for this configuration and fixes what it fixes.
planner::Plan plan_as_configured(const Config& config, const planner::Problem& problem);

// The configuration with the plan's choices in place of its own. `cores`: the plan's devices are
// the cores of this machine, and are named in `devices`.
Config with_plan(Config config, const planner::Plan& plan, bool cores);

}  // namespace twobw::train
