// The costs of a configuration's model on every kind of device of a cluster.
#pragma once

#include <optional>
#include <vector>

#include "core/base/config.h"
#include "planning/planner/costs/layer_costs.h"
#include "planning/planner/costs/profile.h"
#include "planning/planner/hardware/cluster.h"

namespace twobw::planner {

// Microbatch sizes worth modelling: the powers of two up to the batch, and the one that is fixed, if any.
std::vector<int> usual_microbatches(int batch, std::optional<int> fixed);

// As the profile measured them, at each kind's speed; it must be of this model.
std::vector<CostTable> measured_tables(const Config& config, const Cluster& cluster, const Profile& profile);

// From the figures of each kind. Throws InputError where they are not known.
std::vector<CostTable> modelled_tables(const Config& config, const Cluster& cluster,
                                       const std::vector<int>& microbatches);

}  // namespace twobw::planner
