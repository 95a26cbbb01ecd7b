// What `plan` and `simulate` ask the planner, from a configuration and the files named beside it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "planning/planner/costs/plan.h"

namespace twobw::cli {

struct ProblemFiles {
  std::string cluster;  // empty: this machine
  std::string profile;  // empty: times are modelled from the devices' figures
};

// `batch`: the configuration's own, if nothing. `microbatch`: the one size wanted, if any.
planner::Problem make_problem(const Config& config, const ProblemFiles& files, std::optional<int> batch,
                              std::optional<int> microbatch);

// What a run on this machine calls the cluster's devices, where they can be those that the configuration
// names, or this machine's cores; else none.
std::vector<std::string> local_devices(const Config& config, const planner::Cluster& cluster);

}  // namespace twobw::cli
