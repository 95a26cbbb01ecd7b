// On which cores or GPUs (process_gpus.h) the workers of a run in several processes compute. What hosts have
// is told to rank 0, which decides for all.
#pragma once

#include "engine/runtime/process_devices.h"

#include <string>
#include <vector>

#include "core/base/config.h"
#include "core/base/gpu_name.h"
#include "engine/device/device.h"

namespace twobw::runtime {

// What a process knows of its host.
struct HostDevices {
  std::string host;                    // its name
  std::string machine;                 // the same in all processes of one host, and in no others
  std::vector<int> cores;              // that this process may use
  std::vector<std::string> gpus = {};  // that it sees (engine/device/gpu_thread.h)
  bool has_bfloat16 = false;           // all of them
  int nccl = 0;                        // its version; 0: none
  bool nccl_shares_gpus = false;       // asked to, by NCCL_MULTI_RANK_GPU_ENABLE=1

  static void fields(auto& self, auto&& visit) {
    visit(self.host, self.machine, self.cores, self.gpus, self.has_bfloat16, self.nccl,
          self.nccl_shares_gpus);
  }
  friend bool operator==(const HostDevices&, const HostDevices&) = default;
};

// Meaning of `devices: auto` in fp32. SameBits: CPU cores, where results do not depend on the layout.
enum class AutoDevices { Fast, SameBits };

HostDevices host_devices();

// By rank. Processes of one host that may all use the same cores get equal parts of them; where a launcher
// has bound them to different ones, each has its own.
std::vector<device::CoreSet> share_cores(const std::vector<HostDevices>& hosts);

// Of each worker, by its number: as the configuration's list says, which has an entry for each, or what its
// process has, dealt out to the workers there. `hosts`: by rank. Throws InputError: for workers that the
// processes cannot share evenly, for a core that the process of its worker may not use, and as
// gpus_of_processes() does.
std::vector<device::Device> devices_of_processes(const Config& config, const std::vector<HostDevices>& hosts,
                                                 AutoDevices policy = AutoDevices::Fast);

// What plan: auto is to plan for, process after process, as many each: those that the configuration names,
// GPUs (gpus_to_plan_for()), or single cores, so many as the process with the fewest has. Throws InputError
// like the above.
std::vector<std::string> devices_to_plan_for(const Config& config, const std::vector<HostDevices>& hosts);

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
