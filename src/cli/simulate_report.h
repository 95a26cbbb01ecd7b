// What `simulate` prints of a result. Where a configuration was simulated there is a plan, and its tokens a
// second; null: a schedule with stated times.
#pragma once

#include <string>

#include "planner/costs/plan.h"
#include "schedule/spec.h"
#include "simulator/simulate.h"

namespace twobw::cli {

// A table of where each stage's time goes; on a terminal the start of the run is drawn below it.
void print_simulation(const schedule::Spec& spec, const simulator::Result& result, const planner::Plan* plan,
                      double tokens_per_s, const std::string& color);

void print_simulation_json(const schedule::Spec& spec, const simulator::Result& result,
                           const planner::Plan* plan, double tokens_per_s);

}  // namespace twobw::cli
