// The result of a search, as text and as JSON.
#pragma once

#include <string>

#include "core/base/json.h"
#include "planning/planner/costs/plan.h"
#include "planning/planner/search/search.h"

namespace twobw::planner {

// The plan stage by stage and its forecast, or if nothing fits, the closest plan and suggestions. `model`
// names the model: "gpt". With `explain` also every candidate, and why it lost.
std::string report(const Problem& problem, const SearchResult& result, const std::string& model,
                   bool explain);

// The devices of a stage: "H100 on a-0", "8 x H100 on a-0", "16 x H100 on a-0..a-1".
std::string describe_devices(const Cluster& cluster, const StagePlan& stage);

// The part of an update that would be saved if all links were free.
double communication_share(const Problem& problem, const Plan& plan);

// Elements, tied weights once.
double parameter_count(const Problem& problem);

// The result as JSON.
std::string to_json(const Problem& problem, const SearchResult& result);

// The kind of a stage's devices, and the node and the device of each replica.
Json devices_json(const Cluster& cluster, const StagePlan& stage);

}  // namespace twobw::planner
