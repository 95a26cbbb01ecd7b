// The devices of the workers of a run, in one or several processes. Every process sends its inventory to rank
// 0, which decides for all.
#pragma once

#include <string>
#include <vector>

#include "core/base/config.h"
#include "core/base/gpu_name.h"
#include "engine/device/device.h"

namespace twobw::runtime {

// The inventory of a process.
struct HostDevices {
  std::string host;                    // its name
  std::string machine;                 // unique id of the host
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

// The processes that share the devices of a rank, and its index among them. Processes of one host that see
// the same devices divide them; if a launcher gave them different ones, each keeps its own.
struct HostShare {
  int processes = 1, before = 0;
};
template <typename Devices>
HostShare share_of(const std::vector<HostDevices>& hosts, std::size_t rank, Devices HostDevices::*devices) {
  HostShare share{.processes = 0};
  for (std::size_t other = 0; other < hosts.size(); ++other) {
    if (hosts[other].machine != hosts[rank].machine) continue;
    if (hosts[other].*devices != hosts[rank].*devices) return {};
    share.processes += 1;
    share.before += other < rank ? 1 : 0;
  }
  return share;
}

// Meaning of `devices: auto` in fp32. SameBits: CPU cores, where results do not depend on the layout.
enum class AutoDevices { Fast, SameBits };

HostDevices host_devices();

// The cores of each rank (share_of()).
std::vector<device::CoreSet> share_cores(const std::vector<HostDevices>& hosts);

// The device of each worker, by its number: from the configuration's list, with an entry for each, or its
// process's devices, divided among its workers. `hosts`: by rank. Throws InputError for workers that the
// processes cannot share evenly, for a core that the worker's process may not use, and as gpus_of_processes()
// does.
std::vector<device::Device> devices_of_processes(const Config& config, const std::vector<HostDevices>& hosts,
                                                 AutoDevices policy = AutoDevices::Fast);

// The devices for plan: auto, equally many for each process: the configuration's list, GPUs
// (gpus_to_plan_for()), or single cores, as many as the process with the fewest has. Throws InputError as
// above.
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

// The GPU of each worker, by its number, as its process numbers them: from the configuration, or divided.
// Processes of a host that see the same GPUs share them like the workers of one process; if a launcher gave
// them different ones, each keeps its own. Throws InputError for missing GPUs, for GPUs without
// train.precision, and for processes that would share a GPU although NCCL forbids it.
std::vector<GpuSlice> gpus_of_processes(const Config& config, const std::vector<HostDevices>& hosts);

// The GPUs for plan: auto, equally many for each process: the configuration's list, or whole GPUs, as many
// as the process with the fewest has; slices if there are more processes than GPUs. Throws InputError as
// above.
std::vector<GpuSlice> gpus_to_plan_for(const Config& config, const std::vector<HostDevices>& hosts);

}  // namespace twobw::runtime
