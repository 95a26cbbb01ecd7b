// Plans that differ from a plan in one thing. All are of the space of search.h and of the same schedule and
// replicas; none says what it recomputes, or whether it fits.
#pragma once

#include <vector>

#include "planning/planner/costs/plan.h"

namespace twobw::planner {

// With more or fewer microbatches in flight, with one or two gradient buffers, with a boundary moved by a
// layer or to the next that hands on no more, with other microbatches, with a stage less or more: in this
// order. The latter sit where the search would put them: a stage less frees the first one's devices, a stage
// more takes the next ones.
std::vector<Plan> neighbours(const Problem& problem, const Plan& plan);

}  // namespace twobw::planner
