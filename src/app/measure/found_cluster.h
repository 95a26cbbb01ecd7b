// Finds the hosts of a launcher's processes and describes them as a cluster for the planner: cores or GPUs,
// and the measured links.
#pragma once

#include <string>
#include <vector>

#include "app/measure/links.h"
#include "core/base/gpu_name.h"
#include "engine/runtime/process_devices.h"
#include "engine/transport/processes.h"
#include "planning/host/machine.h"
#include "planning/planner/hardware/cluster.h"

namespace twobw::measure {

// A GPU or a slice of one.
struct FoundGpu {
  std::string name;   // the driver's, of the whole GPU
  double memory = 0;  // bytes of the whole GPU
  int slices = 1;

  static void fields(auto& self, auto&& visit) { visit(self.name, self.memory, self.slices); }
};

struct FoundHost {
  std::string name;                            // unique: numbered if several hosts share it
  std::vector<int> ranks;                      // its processes
  int cores = 1;                               // of all its processes
  double memory = 0;                           // bytes per core
  device::Machine machine;                     // as measured by one process
  std::vector<FoundGpu> gpus = {};             // of its processes; empty: the cores are the devices
  planner::LinkSpec local = planner::kNoLink;  // between the GPUs of its only process
};

struct FoundCluster {
  std::vector<FoundHost> hosts;
  LinksByHost links;

  bool has_gpus() const { return !hosts.empty() && !hosts.front().gpus.empty(); }
};

// Collective; only rank 0 gets hosts. On rank 0, `processes`: all hosts' devices; `gpus`: the devices process
// by process, equally many each; empty: cores.
FoundCluster find_cluster(transport::Processes& all, const std::vector<runtime::HostDevices>& processes,
                          const std::vector<GpuSlice>& gpus);

// The cluster of cores. `machines`: by rank; only that of a machine's first process is used.
FoundCluster found_cluster(const std::vector<runtime::HostDevices>& processes,
                           const std::vector<device::Machine>& machines,
                           const std::vector<ProcessLink>& links);

// The GPUs of a process.
struct ProcessGpus {
  std::vector<FoundGpu> gpus;
  planner::LinkSpec local = planner::kNoLink;  // between them, if it was measured

  static void fields(auto& self, auto&& visit) { visit(self.gpus, self.local); }
};

// The cluster of GPUs. `gpus`: by rank.
FoundCluster found_gpus(const std::vector<runtime::HostDevices>& processes,
                        const std::vector<ProcessGpus>& gpus, const std::vector<ProcessLink>& links);

// The catalogue's figures if it has the name, else name and memory only. A slice has its share of everything.
planner::DeviceKind kind_of(const FoundGpu& gpu);

// A node per host and a device per core or GPU. Devices of a host are joined by the link between its
// processes or, with one process, by that between its threads. Hosts that differ by measurement noise count
// as equal and as slow as the slowest.
planner::Cluster cluster_of(const FoundCluster& found);

// The cluster as YAML, with the origin of every figure and all measured links in comments.
std::string describe(const FoundCluster& found);

// Tables of hosts and links.
std::string table_of(const FoundCluster& found);

}  // namespace twobw::measure
