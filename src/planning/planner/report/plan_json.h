// What a search found, as programs read it.
#pragma once

#include <string>

#include "core/base/json.h"
#include "planning/planner/costs/plan.h"
#include "planning/planner/search/search.h"

namespace twobw::planner {

std::string to_json(const Problem& problem, const SearchResult& result);

// The kind of a stage's devices, and the node and the device of each replica.
Json devices_json(const Cluster& cluster, const StagePlan& stage);

}  // namespace twobw::planner
