// Which candidate wins, once each has its best plan.
#pragma once

#include "planning/planner/costs/plan.h"
#include "planning/planner/search/search.h"

namespace twobw::planner {

// Sorts the candidates: first those that fit, by the order of search.h and at most `options.simulate` of them
// again by simulation; then those that do not, by how much they miss. Fills in the winner, and by how much
// the others that fit are behind it.
void rank(const Problem& problem, const SearchOptions& options, SearchResult& result);

}  // namespace twobw::planner
