// The output of `simulate`.
#pragma once

#include <string>

#include "core/schedule/spec.h"
#include "core/simulator/simulate.h"
#include "planning/planner/costs/plan.h"

namespace twobw::cli {

// A configuration, as it was simulated.
struct SimulatedPlan {
  const planner::Cluster& cluster;
  const planner::Plan& plan;
  double tokens_per_s = 0;
};

// A table of where each stage's time goes; on a terminal the start of the run is drawn below it. `simulated`
// is null for a schedule with stated times.
void print_simulation(const schedule::Spec& spec, const simulator::Result& result,
                      const SimulatedPlan* simulated, const std::string& color);

void print_simulation_json(const schedule::Spec& spec, const simulator::Result& result,
                           const SimulatedPlan* simulated);

}  // namespace twobw::cli
