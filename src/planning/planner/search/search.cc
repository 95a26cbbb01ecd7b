#include "planning/planner/search/search.h"

#include "core/base/error.h"
#include "planning/planner/search/shortfall.h"

namespace twobw::planner {

SearchResult search(const Problem& problem, const SearchOptions& options) {
  SearchResult result = rank_candidates(problem, options);
  if (result.best) return result;
  if (result.candidates.empty()) fail_input("what is fixed leaves no plan: no schedule to try");
  if (result.candidates.front().standing != Standing::Memory)
    fail_input("what is fixed leaves no plan: {}", result.candidates.front().reason);
  Shortfall shortfall{.closest = *result.candidates.front().best};
  if (options.remedies) shortfall.remedies = remedies(problem, shortfall.closest);
  result.shortfall = std::move(shortfall);
  return result;
}

}  // namespace twobw::planner
