// Systems with results that are known by hand.
#pragma once

#include <limits>

#include "core/simulator/simulate.h"

namespace twobw::simulator {

inline constexpr double kFree = std::numeric_limits<double>::infinity();

// Equal stages, free links.
inline System equal_stages(int stages, double forward = 1, double backward = 2) {
  System system;
  system.stages.assign(stages, {.forward = forward, .backward = backward});
  system.boundaries.resize(stages - 1);
  return system;
}

// Gives every boundary two channels, and `bytes` to send over each.
inline void add_links(System& system, const Channel& channel, double bytes) {
  for (Boundary& boundary : system.boundaries) {
    const int first = static_cast<int>(system.channels.size());
    boundary = {bytes, bytes, first, first + 1};
    system.channels.insert(system.channels.end(), 2, channel);
  }
}

// One channel for everything that crosses a boundary.
inline void add_shared_link(System& system, const Channel& channel, double bytes) {
  system.channels = {channel};
  for (Boundary& boundary : system.boundaries) boundary = {bytes, bytes, 0, 0};
}

}  // namespace twobw::simulator
