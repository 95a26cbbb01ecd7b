#include "engine/runtime/process_devices.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "engine/device/gpu_thread.h"
#include "engine/runtime/rank_map.h"
#include "engine/transport/sum_rounds.h"

namespace twobw::runtime {
namespace {

constexpr int kSharesGpus = 23000;  // from this version on NCCL lets processes share a GPU

std::string version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

// The GPUs of `each` workers of every process.
std::vector<std::vector<GpuSlice>> deal_to_processes(const std::vector<HostDevices>& hosts, int each) {
  std::vector<std::vector<GpuSlice>> dealt;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const HostShare share = share_of(hosts, rank, &HostDevices::gpus);
    const auto gpus = static_cast<int>(hosts[rank].gpus.size());
    const std::vector<GpuSlice> all = deal_gpus(gpus, each * share.processes);
    const auto first = all.begin() + share.before * each;
    dealt.emplace_back(first, first + each);
  }
  return dealt;
}

std::string count_gpus(std::size_t count) {
  return fmt::format("{} GPU{}", count, count == 1 ? "" : "s");
}

// The number of GPUs that a process can have to itself; 0 if it shares one.
int own_gpus(const std::vector<HostDevices>& hosts, std::size_t rank) {
  return static_cast<int>(hosts[rank].gpus.size()) / share_of(hosts, rank, &HostDevices::gpus).processes;
}

// The number that every process can have to itself; 1 if some share theirs.
int gpus_each(const std::vector<HostDevices>& hosts) {
  std::vector<int> own;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) own.push_back(std::max(1, own_gpus(hosts, rank)));
  return *std::ranges::min_element(own);
}

std::vector<std::vector<GpuSlice>> named_gpus(const Config& config, const std::vector<HostDevices>& hosts,
                                              int each) {
  std::vector<GpuSlice> all;
  for (const std::string& name : config.devices) {
    for (const GpuSlice& slice : parse_gpu(name)) all.push_back(slice);
  }
  std::vector<std::vector<GpuSlice>> named;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(rank) * each;
    named.emplace_back(first, first + each);
    for (const GpuSlice& slice : named.back()) {
      if (slice.gpu < std::ssize(hosts[rank].gpus)) continue;
      fail_input("devices has '{}' for process {} on {}, which sees {} GPUs", describe(slice), rank,
                 hosts[rank].host, hosts[rank].gpus.size());
    }
  }
  return named;
}

void check_abilities(const Config& config, const std::vector<HostDevices>& hosts) {
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    if (hosts[rank].nccl == 0) {
      fail_input(
          "this program was built without NCCL, so its processes cannot compute on GPUs; build it with NCCL, "
          "or start it without a launcher: one process serves all GPUs of a host");
    }
    if (config.train.precision == "bf16" && !hosts[rank].has_bfloat16)
      fail_input("train.precision is bf16, which a GPU of {} does not have; it must be fp16 or fp32",
                 hosts[rank].host);
  }
}

void check_sharing(const std::vector<HostDevices>& hosts, const std::vector<std::vector<GpuSlice>>& gpus) {
  std::map<std::pair<std::string, std::string>, int> users;  // of a GPU of a machine: the first
  for (int rank = 0; rank < std::ssize(hosts); ++rank) {
    const HostDevices& host = hosts[rank];
    for (const GpuSlice& slice : gpus[rank]) {
      const int first = users.try_emplace({host.machine, host.gpus[slice.gpu]}, rank).first->second;
      if (first == rank || (host.nccl >= kSharesGpus && host.nccl_shares_gpus)) continue;
      const std::string ways =
          host.nccl >= kSharesGpus
              ? "NCCL allows with NCCL_MULTI_RANK_GPU_ENABLE=1 alone"
              : fmt::format("NCCL {} does not allow (from 2.30 on it can)", version_text(host.nccl));
      fail_input(
          "processes {} and {} would share cuda:{} of {}, which {}; start at most as many processes as there "
          "are GPUs, or one without a launcher, which serves all of them",
          first, rank, slice.gpu, host.host, ways);
    }
  }
}

std::vector<GpuSlice> checked_gpus(const Config& config, const std::vector<HostDevices>& hosts,
                                   const std::vector<std::vector<GpuSlice>>& by_process) {
  check_abilities(config, hosts);
  check_sharing(hosts, by_process);
  std::vector<GpuSlice> all;
  for (const auto& gpus : by_process) all.insert(all.end(), gpus.begin(), gpus.end());
  return all;
}

// `plan: auto` decides on the workers: at least one in each process.
int workers_each(const Config& config, const std::vector<HostDevices>& hosts) {
  const auto processes = static_cast<int>(hosts.size());
  return config.plan == "auto" ? 1 : std::max(1, config.pipeline.workers() / processes);
}

// Why a run in fp32 stays on CPU cores, and the way out; empty: it does not.
std::string obstacle_to_gpus(const Config& config, const std::vector<HostDevices>& hosts) {
  const int each = workers_each(config, hosts);
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const int own = own_gpus(hosts, rank);
    if (own >= each) continue;
    if (hosts.size() == 1) {
      return fmt::format(
          "fp32 needs one for each of {} workers, found {}; set train.precision=bf16, or name slices in "
          "devices (cuda:0/{})",
          each, own, (each + own - 1) / own);
    }
    return fmt::format(
        "fp32 needs one for each worker, and process {} on {} has {} for {}; start at most as many workers "
        "as there are GPUs",
        rank, hosts[rank].host, own, each);
  }
  const auto lacks_nccl = [](const HostDevices& host) { return host.nccl == 0; };
  if (hosts.size() > 1 && std::ranges::any_of(hosts, lacks_nccl))
    return "this program was built without NCCL; without a launcher one process uses all GPUs of a host";
  if (config.plan != "auto" && config.pipeline.replicas > transport::kMostReplicasOnGpus) {
    return fmt::format("pipeline.replicas is {}; on GPUs at most {} are allowed", config.pipeline.replicas,
                       transport::kMostReplicasOnGpus);
  }
  return {};
}

// A machine and the identity of its GPU.
using MachineGpu = std::pair<std::string, std::string>;

std::string describe_use(const Config& config, const std::vector<HostDevices>& hosts) {
  std::set<MachineGpu> all, used;
  for (const HostDevices& host : hosts) {
    for (const std::string& gpu : host.gpus) all.insert({host.machine, gpu});
  }
  if (config.plan == "auto") return fmt::format("planning for {}", count_gpus(all.size()));
  const auto by_process = deal_to_processes(hosts, workers_each(config, hosts));
  std::size_t workers = 0;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    workers += by_process[rank].size();
    for (const GpuSlice& slice : by_process[rank])
      used.insert({hosts[rank].machine, hosts[rank].gpus[static_cast<std::size_t>(slice.gpu)]});
  }
  const std::string unused =
      used.size() == all.size()
          ? ""
          : fmt::format(", {} unused: more stages, more replicas or plan=auto can use them",
                        all.size() - used.size());
  if (used.size() < workers)
    return fmt::format("on {} in slices, for {} workers{}", count_gpus(used.size()), workers, unused);
  return fmt::format("on {}, one for each worker{}", count_gpus(used.size()), unused);
}

}  // namespace

DeviceChoice choose_devices(const Config& config, const std::vector<HostDevices>& hosts, AutoDevices policy) {
  if (!config.devices.empty()) return {.gpus = names_gpu(config.devices.front())};
  const bool is_fp32 = config.train.precision == "fp32";
  if (is_fp32 && policy == AutoDevices::SameBits) return {};
  const auto has_none = [](const HostDevices& host) { return host.gpus.empty(); };
  if (std::ranges::all_of(hosts, has_none)) {
    return {.reason = device::built_with_cuda() ? "on CPU cores: no GPU was found"
                                                : "on CPU cores: this program was built without CUDA"};
  }
  const auto without = std::ranges::find_if(hosts, has_none);
  if (is_fp32) {
    const std::string obstacle = obstacle_to_gpus(config, hosts);
    if (!obstacle.empty()) return {.reason = "on CPU cores, GPUs unused: " + obstacle};
  } else if (without != hosts.end()) {
    fail_input(
        "devices is auto, but process {} on {} has no GPU and others have; all workers of several processes "
        "compute on GPUs or all on CPU cores, so name devices",
        without - hosts.begin(), without->host);
  }
  return {.gpus = true, .reason = describe_use(config, hosts)};
}

std::vector<GpuSlice> gpus_of_processes(const Config& config, const std::vector<HostDevices>& hosts) {
  const int each = RankMap(config.pipeline, static_cast<int>(hosts.size()), 0).workers_here();
  const auto by_process =
      config.devices.empty() ? deal_to_processes(hosts, each) : named_gpus(config, hosts, each);
  if (config.pipeline.replicas > transport::kMostReplicasOnGpus)
    fail_input("pipeline.replicas is {}; on GPUs at most {} are allowed", config.pipeline.replicas,
               transport::kMostReplicasOnGpus);
  return checked_gpus(config, hosts, by_process);
}

std::vector<GpuSlice> gpus_to_plan_for(const Config& config, const std::vector<HostDevices>& hosts) {
  if (config.devices.empty()) return checked_gpus(config, hosts, deal_to_processes(hosts, gpus_each(hosts)));
  const auto named = single_devices(config.devices).size();
  return checked_gpus(config, hosts, named_gpus(config, hosts, static_cast<int>(named / hosts.size())));
}

}  // namespace twobw::runtime
