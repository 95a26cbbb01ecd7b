// This machine as the planner sees it: every core a device, with its share of the memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/cluster.h"
#include "planner/profile.h"

namespace twobw::device {

std::string processor_name();  // as the system names it; empty where it does not
double system_memory();        // bytes, of the machine or of the container this runs in

struct Machine {
  std::string processor;      // its name
  int cores = 1;              // that this process may use
  double memory = 0;          // bytes
  double copy_bandwidth = 0;  // bytes a second that each core copies while all of them do
  double handover = 0;        // seconds from one thread's word to another's answer, one way
};

// Takes about a fifth of a second.
Machine measure_machine();

planner::Cluster cluster_of(const Machine& machine);

// The devices that a configuration names, as the profile describes them; else this machine's cores, and there
// the profile knows the link between them best.
planner::Cluster cluster_at_hand(const std::vector<std::string>& devices,
                                 const std::optional<planner::Profile>& profile);

// The cluster as YAML, with a word on where every figure comes from.
std::string describe(const Machine& machine);

}  // namespace twobw::device
