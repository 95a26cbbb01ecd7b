// This machine as the planner sees it: every core a device, with its share of the memory. Needs no LibTorch.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planning/host/machine.h"
#include "planning/planner/costs/profile.h"
#include "planning/planner/hardware/cluster.h"

namespace twobw::measure {

planner::Cluster cluster_of(const device::Machine& machine);

// The devices that a configuration names, as the profile describes them; else this machine's cores, and there
// the profile knows the link between them best.
planner::Cluster available_cluster(const std::vector<std::string>& devices,
                                   const std::optional<planner::Profile>& profile);

// The cluster as YAML, with a word on where every figure comes from.
std::string describe(const device::Machine& machine);

}  // namespace twobw::measure
