// The devices that a profile was made on, as a cluster to plan for.
#pragma once

#include "planning/planner/costs/profile.h"
#include "planning/planner/hardware/cluster.h"

namespace twobw::planner {

// So many devices like the profiled one, in one machine.
Cluster profiled_cluster(const Profile& profile, int count);

}  // namespace twobw::planner
