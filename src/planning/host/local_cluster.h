// This machine as a cluster: every core is a device with its share of the memory. No LibTorch.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planning/host/machine.h"
#include "planning/planner/costs/profile.h"
#include "planning/planner/hardware/cluster.h"

namespace twobw::measure {

planner::Cluster cluster_of(const device::Machine& machine);

// The configuration's devices by the profile, or else this machine's cores, with the profile's local link.
planner::Cluster available_cluster(const std::vector<std::string>& devices,
                                   const std::optional<planner::Profile>& profile);

// The cluster as YAML, with the origin of every figure in comments.
std::string describe(const device::Machine& machine);

}  // namespace twobw::measure
