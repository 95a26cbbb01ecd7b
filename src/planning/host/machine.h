// This machine: processor, cores, memory, and how fast they move bytes; and as a cluster, in which every core
// is a device with its share of the memory. No LibTorch.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planning/planner/costs/profile.h"
#include "planning/planner/hardware/cluster.h"

namespace twobw::device {

std::string processor_name();  // empty if unknown
double system_memory();        // bytes, of the machine or its container

struct Machine {
  std::string processor;
  int cores = 1;              // available to this process
  double memory = 0;          // bytes
  double copy_bandwidth = 0;  // bytes per second and core while all cores copy
  double handover = 0;        // seconds to wake another thread

  static void fields(auto& self, auto&& visit) {
    visit(self.processor, self.cores, self.memory, self.copy_bandwidth, self.handover);
  }
};

// Takes about 0.2 s.
Machine measure_machine();

// Free bytes, within the container's limit.
double available_memory();

}  // namespace twobw::device

namespace twobw::measure {

planner::Cluster cluster_of(const device::Machine& machine);

// The configuration's devices by the profile, or else this machine's cores, with the profile's local link.
planner::Cluster available_cluster(const std::vector<std::string>& devices,
                                   const std::optional<planner::Profile>& profile);

// The cluster as YAML, with the origin of every figure in comments.
std::string describe(const device::Machine& machine);

}  // namespace twobw::measure
