// The devices that a profile was made on, as a cluster to plan for.
#pragma once

#include "planning/planner/costs/profile.h"
#include "planning/planner/hardware/cluster.h"

namespace twobw::planner {

// One machine with `count` devices like the profiled one.
Cluster profiled_cluster(const Profile& profile, int count);

}  // namespace twobw::planner
