// Local search: makes a plan better by simulation, a move at a time. Where transfers wait for each other, and
// under flush, formulas say too little for the search to find the best plan; mostly it is a few moves away.
#pragma once

#include <vector>

#include "planning/planner/costs/estimate.h"

namespace twobw::planner {

// Plans that differ from a plan in one thing: with more or fewer microbatches in flight, with one or two
// gradient buffers, with a boundary moved by a layer or to the next that hands on no more, with other
// microbatches, with a stage less or more. In this order. All are of the space of search.h and of the same
// schedule and replicas; none says what it recomputes, or whether it fits. A stage less frees the first one's
// devices, a stage more takes the next ones.
std::vector<Plan> local_moves(const Problem& problem, const Plan& plan);

// Work of simulating an update of the plan: microbatches on all stages.
double work_of(const Plan& plan);

// Goes from a plan that fits and was simulated to better ones that fit, until no move gains a thousandth or
// the work is spent, which is taken off.
void local_search(const Problem& problem, Estimate& estimate, double& work);

}  // namespace twobw::planner
