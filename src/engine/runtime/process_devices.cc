#include "engine/runtime/process_devices.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "core/base/error.h"
#include "core/base/gpu_name.h"
#include "engine/device/gpu_thread.h"
#include "engine/runtime/rank_map.h"
#include "engine/transport/gpu_paths.h"

namespace twobw::runtime {
namespace {

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "an unnamed host";
}

// Containers of one host may differ by their names, and hosts may have the same.
std::string machine_id(const std::string& otherwise) {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  return std::getline(file, id) && !id.empty() ? id : otherwise;
}

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && std::string_view(value) == "1";
}

// The entries of the configuration's list that are a process's own.
std::vector<std::string> entries_of(const std::vector<std::string>& all, int processes, int rank) {
  const std::ptrdiff_t each = std::ssize(all) / processes;
  return {all.begin() + rank * each, all.begin() + (rank + 1) * each};
}

}  // namespace

HostDevices host_devices() {
  const std::string name = host_name();
  HostDevices host{.host = name,
                   .machine = machine_id(name),
                   .cores = device::available_cores(),
                   .gpus = device::gpu_ids(),
                   .nccl = transport::nccl_version(),
                   .nccl_shares_gpus = is_set("NCCL_MULTI_RANK_GPU_ENABLE")};
  host.has_bfloat16 = true;
  for (int gpu = 0; gpu < std::ssize(host.gpus); ++gpu)
    host.has_bfloat16 = host.has_bfloat16 && device::has_bfloat16({.gpu = gpu});
  return host;
}

std::vector<device::CoreSet> share_cores(const std::vector<HostDevices>& hosts) {
  std::vector<device::CoreSet> shares;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const HostShare share = share_of(hosts, rank, &HostDevices::cores);
    shares.push_back(device::deal_cores(share.processes, hosts[rank].cores)[share.before]);
  }
  return shares;
}

std::vector<device::Device> devices_of_processes(const Config& config, const std::vector<HostDevices>& hosts,
                                                 AutoDevices policy) {
  const auto processes = static_cast<int>(hosts.size());
  const int each = RankMap(config.pipeline, processes, 0).workers_here();
  std::vector<device::Device> devices;
  if (choose_devices(config, hosts, policy).gpus) {
    for (const GpuSlice& slice : gpus_of_processes(config, hosts)) devices.push_back({.gpu = slice});
    return devices;
  }
  const std::vector<device::CoreSet> shares = share_cores(hosts);
  for (int rank = 0; rank < processes; ++rank) {
    if (config.devices.empty()) {
      for (const device::CoreSet& cores : device::deal_cores(each, shares[rank].cores))
        devices.push_back({.cores = cores});
      continue;
    }
    for (const std::string& text : entries_of(config.devices, processes, rank))
      devices.push_back({.cores = device::parse_cores(text, hosts[rank].cores)});
  }
  return devices;
}

std::vector<std::string> devices_to_plan_for(const Config& config, const std::vector<HostDevices>& hosts) {
  const std::vector<std::string> named = single_devices(config.devices);
  if (named.size() % hosts.size() != 0) {
    fail_input("devices has {} entries, which {} processes cannot share evenly; it must be a multiple of {}",
               named.size(), hosts.size(), hosts.size());
  }
  if (choose_devices(config, hosts).gpus) {
    std::vector<std::string> gpus;
    for (const GpuSlice& slice : gpus_to_plan_for(config, hosts)) gpus.push_back(describe(slice));
    return gpus;
  }
  if (!named.empty()) return named;
  const std::vector<device::CoreSet> shares = share_cores(hosts);
  const auto size_of = [](const device::CoreSet& set) { return set.cores.size(); };
  const std::size_t each = size_of(*std::ranges::min_element(shares, {}, size_of));
  std::vector<std::string> names;
  for (const device::CoreSet& share : shares) {
    for (std::size_t i = 0; i < each; ++i)
      names.push_back(device::describe(device::CoreSet{.cores = {share.cores[i]}}));
  }
  return names;
}

}  // namespace twobw::runtime
