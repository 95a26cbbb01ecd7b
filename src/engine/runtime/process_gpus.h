// Whether workers compute on GPUs, and on which in a run of several processes.
#pragma once

#include <string>
#include <vector>

#include "core/base/config.h"
#include "core/base/gpu_name.h"
#include "engine/runtime/process_devices.h"

namespace twobw::runtime {

struct DeviceChoice {
  bool gpus = false;
  std::string reason = {};  // a line for the user; empty if the configuration names devices
};

// The rule of `devices: auto`, for one process and for several. 16 bits: GPUs if there are any; throws
// InputError if only some processes have one. fp32, where CPU cores compute as well: GPUs if each worker has
// one to itself; with `plan: auto`, which decides on the workers, if each process has one.
DeviceChoice choose_devices(const Config& config, const std::vector<HostDevices>& hosts,
                            AutoDevices policy = AutoDevices::Fast);

// Of each worker, by its number, as its process counts them: as the configuration says, or dealt out. The
// processes of a host that see the same GPUs share them as the workers of one process would; where a launcher
// has given them different ones, each has its own. Throws InputError: for GPUs that are not there or cannot
// compute in train.precision, and for processes that would share a GPU where NCCL does not let them.
std::vector<GpuSlice> gpus_of_processes(const Config& config, const std::vector<HostDevices>& hosts);

// What plan: auto is to plan for, process after process, as many each: those that the configuration names,
// which the processes can share evenly, or whole GPUs, so many as the process with the fewest has. Where
// there are more processes than GPUs each has a slice. Throws InputError like the above.
std::vector<GpuSlice> gpus_to_plan_for(const Config& config, const std::vector<HostDevices>& hosts);

}  // namespace twobw::runtime
