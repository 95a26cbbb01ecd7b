// What would make a model fit that does not.
#pragma once

#include <string>
#include <vector>

#include "planning/planner/costs/estimate.h"

namespace twobw::planner {

// Each would do alone, the least trouble first; found by planning again. `closest` is the plan that
// misses by least.
std::vector<std::string> suggestions(const Problem& problem, const Estimate& closest);

}  // namespace twobw::planner
