// twobw topology under a launcher, which needs LibTorch: null in `twobw` (commands.h).
#pragma once

#include <string>

#include "core/base/config.h"
#include "core/launch/world.h"

namespace twobw::cli {

// In every process. The first one writes the cluster to `output`, or prints it where that is empty.
// Their devices are those that a run with this configuration would have: GPUs or cores.
[[gnu::weak]] void describe_hosts(const launch::World& world, const Config& config,
                                  const std::string& output);

}  // namespace twobw::cli
