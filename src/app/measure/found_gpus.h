// The GPUs that the processes of a launcher have, as the planner sees them.
#pragma once

#include <string>
#include <vector>

#include "app/measure/found_cluster.h"
#include "core/base/gpu_name.h"
#include "engine/runtime/process_devices.h"
#include "engine/transport/processes.h"
#include "planning/planner/hardware/cluster.h"

namespace twobw::measure {

// What a process tells of those that it has.
struct ProcessGpus {
  std::vector<FoundGpu> gpus;
  planner::LinkSpec local = planner::kNoLink;  // between them, where it was asked to measure that
};

// Between rank 0 and each of the others: what the process tells of these GPUs. A process that has no other on
// its host measures what lies between its own.
std::vector<ProcessGpus> ask_for_gpus(transport::Mail& mail, const std::vector<std::string>& hosts,
                                      const std::vector<GpuSlice>& gpus);
// The others. False: rank 0 asked for none.
bool tell_of_gpus(transport::Mail& mail);

// What rank 0 makes of it: as found_cluster(), but of GPUs. `gpus`: by rank.
FoundCluster found_gpus(const std::vector<runtime::HostDevices>& processes,
                        const std::vector<ProcessGpus>& gpus, const std::vector<ProcessLink>& links);

// By the catalogue's figures where it knows the name; else by name and memory alone, for a profile to tell
// the rest. A slice has its part of everything.
planner::DeviceKind kind_of(const FoundGpu& gpu);

// As cluster_of() does it, with every GPU or slice a device.
planner::Cluster cluster_of_gpus(const FoundCluster& found);

}  // namespace twobw::measure
