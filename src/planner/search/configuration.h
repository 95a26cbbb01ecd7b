// Between configurations and the planner: what it is asked for a configuration, and what its answer
// changes in one.
#pragma once

#include <string>
#include <vector>

#include "base/config.h"
#include "planner/costs/plan.h"

namespace twobw::planner {

// All that a configuration says; the cluster and its devices' costs are the caller's. The batch is the
// configuration's own: microbatch x microbatches x replicas.
Problem problem_of(const Config& config, Cluster cluster, std::vector<CostTable> costs);

// The plan that a configuration describes, with its forecast: the planner places it, and cuts it where the
// configuration leaves the split open. The problem is for this configuration and fixes what it fixes.
Plan plan_as_configured(const Config& config, const Problem& problem);

// The configuration with the plan's choices in place of its own. `devices`: what a run calls those of the
// plan's one node, in order; none: the run finds its own.
Config with_plan(Config config, const Plan& plan, const std::vector<std::string>& devices);

}  // namespace twobw::planner
