// Local search by simulation, one move at a time. The time model is approximate on shared links and under
// flush; the best plan is mostly a few moves away from the best by the model.
#pragma once

#include <vector>

#include "planning/planner/costs/estimate.h"

namespace twobw::planner {

// Neighbors of a plan, in this order: more or fewer microbatches in flight, one or two gradient buffers, a
// late tied update, a boundary moved by a layer or to the next one with an output at most as large, another
// microbatch size, a stage less or more. All are in the space of search.h, with the same schedule and
// replicas. Whether they fit and which stages recompute is open. A stage less frees the first one's devices;
// a stage more takes the next.
std::vector<Plan> local_moves(const Problem& problem, const Plan& plan);

// Work of simulating an update of the plan: microbatches on all stages.
double work_of(const Plan& plan);

// First-improvement hill climbing from a simulated plan that fits, until no move gains a thousandth or the
// work is spent, which is subtracted.
void local_search(const Problem& problem, Estimate& estimate, double& work);

}  // namespace twobw::planner
