// The first step of the search: dynamic programming by the time model.
#pragma once

#include "planning/planner/costs/plan.h"
#include "planning/planner/search/search.h"

namespace twobw::planner {

// Every candidate with its best plan by the time model, and other plans that may be better. In no order, and
// without a winner.
SearchResult propose(const Problem& problem, const SearchOptions& options);

}  // namespace twobw::planner
