// The link between two workers of one process, measured.
#pragma once

#include <optional>

#include "engine/device/device.h"
#include "planning/planner/hardware/cluster.h"

namespace twobw::measure {

// A local link hands over a pointer: its latency is the time until the waiting worker goes on; its
// bandwidth is the rate at which that worker's core reads `bytes` that another core has just written.
// Between the first of `cores` and a core besides them; nothing where there is none.
std::optional<planner::LinkSpec> measure_local_link(const device::Device& device, double bytes);

}  // namespace twobw::measure
