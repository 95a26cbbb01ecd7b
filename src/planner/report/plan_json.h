// What a search found, as programs read it.
#pragma once

#include <string>

#include "planner/costs/plan.h"
#include "planner/search/search.h"

namespace twobw::planner {

std::string to_json(const Problem& problem, const SearchResult& result);

}  // namespace twobw::planner
