// Conversion between configurations and the planner's problems and plans.
#pragma once

#include <string>
#include <vector>

#include "core/base/config.h"
#include "planning/planner/costs/plan.h"

namespace twobw::planner {

// All that a configuration says; the cluster and its devices' costs are the caller's. The batch is the
// configuration's own: microbatch x microbatches x replicas.
Problem problem_of(const Config& config, Cluster cluster, std::vector<CostTable> costs);

// The plan of a configuration, on the devices where it is fastest; if it fits none, where memory is short by
// the least. The planner chooses an open split.
Plan plan_as_configured(const Config& config, Problem problem);

// The configuration with the plan's choices. `devices`: names of the devices of the plan's only node, in
// order; empty: the run chooses its devices.
Config with_plan(Config config, const Plan& plan, const std::vector<std::string>& devices);

}  // namespace twobw::planner
