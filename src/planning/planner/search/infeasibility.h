// Suggestions for problems without a plan.
#pragma once

#include <string>
#include <vector>

#include "planning/planner/costs/estimate.h"

namespace twobw::planner {

// Changes each of which makes the model fit, the simplest first; found by planning again. `closest` is the
// plan that exceeds its memory least.
std::vector<std::string> suggestions(const Problem& problem, const Estimate& closest);

}  // namespace twobw::planner
