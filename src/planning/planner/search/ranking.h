// Which candidate wins, once each has its best plan.
#pragma once

#include "planning/planner/costs/plan.h"
#include "planning/planner/search/search.h"

namespace twobw::planner {

// Sorts the candidates: first the ones that fit, by the order of search.h and at most `options.simulate` of
// them by simulation; then the others, by their bytes beyond the capacity. Returns whether any fits.
bool rank(const Problem& problem, const SearchOptions& options, SearchResult& result);

// Sets the winner and the ratios of the others, where a candidate fits.
void conclude(SearchResult& result);

}  // namespace twobw::planner
