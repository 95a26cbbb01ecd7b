// Plans for devices that several processes have: on which links their stages then sit is given by the ranks.
#pragma once

#include <string>
#include <vector>

#include "app/measure/process_links.h"
#include "planning/planner/costs/plan.h"
#include "planning/planner/hardware/cluster.h"
#include "planning/planner/search/preference.h"

namespace twobw::measure {

// The devices of several processes, process after process, as many each (engine/runtime/process_devices.h).
// Those of this one, the first, are measured, and the others taken to be alike.
struct DevicesOfProcesses {
  std::vector<std::string> names;  // none: one process, and the configuration says
  std::vector<std::string> hosts;  // what tells them apart, by rank (process_links.h)
  std::vector<ProcessLink> links;  // that were measured

  int processes() const { return static_cast<int>(hosts.size()); }
  int each() const { return static_cast<int>(names.size() / hosts.size()); }
};

// Those of one process, or the first `count` of them.
std::vector<std::string> devices_of(const DevicesOfProcesses& shared, int rank, std::ptrdiff_t count = -1);

// A GPU of each process, its first, by rank; none where they have cores.
std::vector<GpuSlice> first_gpus(const DevicesOfProcesses& shared);

// Where workers sit when every process has as many: a cluster of these devices and no others, and the node of
// every rank.
struct SharedCluster {
  planner::Cluster cluster;
  std::vector<int> nodes;  // by rank
};

// Of `each` devices a process, all of them like those of `own`, which describes one process. The planner
// knows two kinds of link. A node is a host, so they are the one between its processes and the one between
// hosts. Where a host has one process the first is the one between that one's workers. On one host a process
// of several workers is a node.
SharedCluster shared_cluster(const planner::Cluster& own, const DevicesOfProcesses& shared, int each);

// A plan for the cluster that its workers share, and the problem with that.
struct PlacedPlan {
  planner::Problem problem;
  planner::Plan plan;
};

// The best plan of every number of workers that the processes can share evenly, and of replicas, each worker
// on the process that its number puts it on (engine/runtime/placement.h), with the forecast for that place.
// The cluster of `problem` describes one process.
std::vector<PlacedPlan> plans_to_share(const planner::Problem& problem,
                                       const planner::Preferences& preferences,
                                       const DevicesOfProcesses& shared);

// What was measured, a line for each kind of link.
std::vector<std::string> describe_links(const DevicesOfProcesses& shared);

}  // namespace twobw::measure
