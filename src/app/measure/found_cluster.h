// The hosts that the processes of a launcher run on, as the planner sees them: found, and measured by all of
// them together. Their devices are cores, or GPUs (found_gpus.h).
#pragma once

#include <string>
#include <vector>

#include "app/measure/process_links.h"
#include "core/base/gpu_name.h"
#include "engine/runtime/process_devices.h"
#include "engine/transport/processes.h"
#include "planning/host/machine.h"
#include "planning/planner/hardware/cluster.h"

namespace twobw::measure {

// A GPU, or one of the slices that it is cut into.
struct FoundGpu {
  std::string name;   // of the whole GPU, as the driver says it
  double memory = 0;  // bytes of the whole GPU
  int slices = 1;
};

struct FoundHost {
  std::string name;                 // of its own; where two hosts have the same, a number follows
  std::vector<int> ranks;           // of its processes
  int cores = 1;                    // that they have between them
  double memory = 0;                // bytes of each core's share
  device::Machine machine;          // measured by one process; its cores and memory are what that one may use
  std::vector<FoundGpu> gpus = {};  // that its processes have; none: the cores are the devices
  planner::LinkSpec local =
      planner::kNoLink;  // between the GPUs of its process, where it has one with several
};

struct FoundCluster {
  std::vector<FoundHost> hosts;
  LinksByHost links;  // between the processes

  bool has_gpus() const { return !hosts.empty() && !hosts.front().gpus.empty(); }
};

// Called by all processes; rank 0 gets the cluster, the others one without hosts. On rank 0, `processes`:
// what all of them know of their hosts; `gpus`: what they compute on, process after process, as many each;
// none: on cores.
FoundCluster find_cluster(transport::Processes& all, const std::vector<runtime::HostDevices>& processes,
                          const LinkBudget& budget, const std::vector<GpuSlice>& gpus = {});

// What rank 0 makes of it on cores. `machines`: by rank; looked at is that of the first process of a machine.
FoundCluster found_cluster(const std::vector<runtime::HostDevices>& processes,
                           const std::vector<device::Machine>& machines,
                           const std::vector<ProcessLink>& links);

// A node for each host, with every core a device, or every GPU. Between the devices of a host lies the link
// between its processes; where it has one process only, what moves bytes between that one's threads. Hosts
// that differ by no more than a measurement does are alike, and as slow as the slowest of them.
planner::Cluster cluster_of(const FoundCluster& found);

// The cluster as YAML, with a word on where every figure comes from, and all links that were measured.
std::string describe(const FoundCluster& found);

// Hosts and links for people to read.
std::string table_of(const FoundCluster& found);

}  // namespace twobw::measure
