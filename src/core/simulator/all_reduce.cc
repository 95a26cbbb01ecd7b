#include "core/simulator/simulate.h"

namespace twobw::simulator {

// Scatter the sums in n-1 rounds of one n-th, gather them in as many.
double ring_all_reduce(double bytes, int devices, const Channel& channel) {
  const double rounds = 2.0 * (devices - 1);
  return rounds * (channel.latency + bytes / devices / channel.bandwidth);
}

// The devices of a node scatter their sums, so that each has a share of the bytes; the rings between
// nodes, one a share, run side by side over the node's one link and together carry all bytes; then
// the devices gather. Scattering and gathering inside are what a ring does.
double hierarchical_all_reduce(double bytes, int nodes, int devices_per_node, const Channel& inside,
                               const Channel& between) {
  return ring_all_reduce(bytes, devices_per_node, inside) + ring_all_reduce(bytes, nodes, between);
}

}  // namespace twobw::simulator
