// Makes a plan better by simulation, a step to a neighbour at a time. Where transfers wait for each other,
// and under flush, formulas say too little for the search to find the best plan; it mostly finds one near it.
#pragma once

#include "planning/planner/costs/estimate.h"

namespace twobw::planner {

// What simulating an update of the plan takes: microbatches on all stages.
double work_of(const Plan& plan);

// Goes from a plan that fits and was simulated to better ones that fit, until no neighbour is better by a
// thousandth or the work is spent, which is taken off.
void climb(const Problem& problem, Estimate& estimate, double& work);

}  // namespace twobw::planner
