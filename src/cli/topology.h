// twobw topology under a launcher, which needs LibTorch: null in `twobw` (commands.h).
#pragma once

#include <string>

#include "base/config.h"
#include "launch/world.h"

namespace twobw::cli {

// In every process. The first one writes the cluster to `output`, or prints it where that is empty.
[[gnu::weak]] void describe_hosts(const launch::World& world, const NetworkConfig& network,
                                  const std::string& output);

}  // namespace twobw::cli
