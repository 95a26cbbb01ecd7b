// What a search found, as programs read it.
#pragma once

#include <string>

#include "base/json.h"
#include "planner/costs/plan.h"
#include "planner/search/search.h"

namespace twobw::planner {

std::string to_json(const Problem& problem, const SearchResult& result);

// The kind of a stage's devices, and the node and the device of each replica.
Json devices_json(const Cluster& cluster, const StagePlan& stage);

}  // namespace twobw::planner
