#include "app/measure/found_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include "app/measure/link_benchmark.h"
#include "core/base/codec.h"
#include "engine/device/gpu_thread.h"
#include "planning/host/cores.h"

namespace twobw::measure {
namespace {

bool is_first_of_machine(const std::vector<runtime::HostDevices>& processes, std::size_t rank) {
  const auto before = processes.begin() + static_cast<std::ptrdiff_t>(rank);
  return std::none_of(processes.begin(), before, [&](const runtime::HostDevices& other) {
    return other.machine == processes[rank].machine;
  });
}

// Machines by rank. One process of each measures it: several at once would disturb each other.
std::vector<device::Machine> measure_machines(transport::Processes& all,
                                              const std::vector<runtime::HostDevices>& processes) {
  control::Mail& mail = all.mail();
  if (all.rank() > 0) {
    const bool chosen = mail.receive(0) == "measure";
    mail.send(0, to_bytes(chosen ? device::measure_machine() : device::Machine()));
    return {};
  }
  for (int rank = 1; rank < all.size(); ++rank)
    mail.send(rank, is_first_of_machine(processes, static_cast<std::size_t>(rank)) ? "measure" : "rest");
  std::vector<device::Machine> machines = {device::measure_machine()};
  for (int rank = 1; rank < all.size(); ++rank)
    machines.push_back(from_bytes<device::Machine>(mail.receive(rank)));
  return machines;
}

// Cores by rank. Hosts of one machine share its cores; any other host has all that its processes may use.
std::vector<std::set<int>> cores_to_count(const std::vector<runtime::HostDevices>& processes) {
  const std::vector<device::CoreSet> shares = runtime::share_cores(processes);
  std::vector<std::set<int>> cores;
  for (std::size_t rank = 0; rank < processes.size(); ++rank) {
    const runtime::HostDevices& own = processes[rank];
    const bool shared = std::ranges::any_of(processes, [&](const runtime::HostDevices& other) {
      return other.machine == own.machine && other.host != own.host;
    });
    const std::vector<int>& counted = shared ? shares[rank].cores : own.cores;
    cores.emplace_back(counted.begin(), counted.end());
  }
  return cores;
}

// Whether hosts differ by no more than measurement noise.
bool are_alike(const FoundHost& a, const FoundHost& b) {
  const auto near = [](double x, double y, double part) { return std::abs(x - y) <= part * std::max(x, y); };
  return a.machine.processor == b.machine.processor && near(a.memory, b.memory, 0.1) &&
         near(a.machine.copy_bandwidth, b.machine.copy_bandwidth, 0.3);
}

// The slower figure of each.
FoundHost slower_of(const FoundHost& a, const FoundHost& b) {
  FoundHost both = a;
  both.memory = std::min(a.memory, b.memory);
  both.machine.copy_bandwidth = std::min(a.machine.copy_bandwidth, b.machine.copy_bandwidth);
  both.machine.handover = std::max(a.machine.handover, b.machine.handover);
  return both;
}

// A group of similar hosts.
struct HostKind {
  FoundHost typical;
  std::vector<std::size_t> hosts;
};

std::vector<HostKind> kinds_of(const std::vector<FoundHost>& hosts) {
  std::vector<HostKind> kinds;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const auto found =
        std::ranges::find_if(kinds, [&](const HostKind& kind) { return are_alike(kind.typical, hosts[i]); });
    if (found == kinds.end()) {
      kinds.push_back({.typical = hosts[i], .hosts = {i}});
    } else {
      found->typical = slower_of(found->typical, hosts[i]);
      found->hosts.push_back(i);
    }
  }
  return kinds;
}

// A core of the host and the link between cores.
planner::Cluster cluster_of_core(const FoundHost& host) {
  device::Machine machine = host.machine;
  machine.cores = 1;
  machine.memory = host.memory;
  return cluster_of(machine);
}

constexpr double kLocalBytes = 64 << 20;  // size of timed copies inside a process

ProcessGpus look_at(const std::vector<GpuSlice>& slices, bool measures) {
  ProcessGpus own;
  for (const GpuSlice& slice : slices) {
    own.gpus.push_back(
        {.name = device::gpu_name(slice), .memory = device::gpu_memory(slice).total, .slices = slice.slices});
  }
  if (!measures || slices.size() < 2) return own;
  const auto link = measure_local_link({.gpu = slices.front()}, kLocalBytes);
  device::release_unused_gpu_memory();
  if (link)
    own.local = spec_of({.latency = link->latency, .one_way = link->bandwidth, .both_ways = link->bandwidth});
  return own;
}

// Rank 0: asks the other processes to look at their GPUs. A process alone on its host also
// measures the link between them.
std::vector<ProcessGpus> gather_gpus(control::Mail& mail, const std::vector<std::string>& hosts,
                                     const std::vector<GpuSlice>& gpus) {
  const std::size_t each = gpus.size() / hosts.size();
  const auto own = [&](std::size_t rank) {
    const auto first = gpus.begin() + static_cast<std::ptrdiff_t>(rank * each);
    return std::vector<GpuSlice>(first, first + static_cast<std::ptrdiff_t>(each));
  };
  const auto is_alone = [&](std::size_t rank) { return std::ranges::count(hosts, hosts[rank]) == 1; };
  for (std::size_t rank = 1; rank < hosts.size(); ++rank)
    mail.send(static_cast<int>(rank), to_bytes(own(rank), is_alone(rank)));
  if (gpus.empty()) return {};
  std::vector<ProcessGpus> all = {look_at(own(0), is_alone(0))};
  for (std::size_t rank = 1; rank < hosts.size(); ++rank)
    all.push_back(from_bytes<ProcessGpus>(mail.receive(static_cast<int>(rank))));
  return all;
}

// The other ranks. False: rank 0 asks for none.
bool report_gpus(control::Mail& mail) {
  const auto [slices, measures] = from_bytes<std::vector<GpuSlice>, bool>(mail.receive(0));
  if (slices.empty()) return false;
  mail.send(0, to_bytes(look_at(slices, measures)));
  return true;
}

std::set<std::string> words_of(std::string name) {
  std::ranges::replace(name, '-', ' ');
  std::istringstream words(name);
  return {std::istream_iterator<std::string>(words), {}};
}

// The words of a catalogue name are among the driver's: "A100-40GB" and "NVIDIA A100-SXM4-40GB". The
// catalogue has modules, not PCIe cards.
bool is_kind(const FoundGpu& gpu, const planner::DeviceKind& kind) {
  const std::set<std::string> said = words_of(gpu.name), wanted = words_of(kind.name);
  if (said.contains("PCIe") || said.contains("PCIE")) return false;
  return std::ranges::includes(said, wanted) && std::abs(gpu.memory / kind.memory - 1) < 0.1;
}

planner::DeviceKind whole_kind(const FoundGpu& gpu) {
  for (const planner::DeviceKind& kind : planner::device_catalogue()) {
    if (is_kind(gpu, kind)) return kind;
  }
  return {.name = gpu.name, .memory = gpu.memory};
}

// GPUs with the same name are one kind, with the least of their memories.
int kind_index(planner::Cluster& cluster, const FoundGpu& gpu) {
  const planner::DeviceKind kind = kind_of(gpu);
  const auto known = std::ranges::find(cluster.kinds, kind.name, &planner::DeviceKind::name);
  if (known == cluster.kinds.end()) {
    cluster.kinds.push_back(kind);
    return static_cast<int>(cluster.kinds.size()) - 1;
  }
  known->memory = std::min(known->memory, kind.memory);
  return static_cast<int>(known - cluster.kinds.begin());
}

void add_device(planner::Node& node, int kind) {
  const auto island = std::ranges::find(node.islands, kind, &planner::Island::kind);
  if (island == node.islands.end())
    node.islands.push_back({.kind = kind, .count = 1});
  else
    ++island->count;
}

void add_cores(const FoundCluster& found, planner::Cluster& cluster) {
  const std::vector<HostKind> kinds = kinds_of(found.hosts);
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    const planner::Cluster one = cluster_of_core(kinds[kind].typical);
    cluster.kinds.push_back(one.kinds.front());
    if (kind > 0) cluster.kinds.back().name += fmt::format(" {}", kind + 1);
    for (const std::size_t i : kinds[kind].hosts) {
      planner::Node& node = cluster.nodes[i];
      node.islands = {{.kind = static_cast<int>(kind), .count = found.hosts[i].cores}};
      if (found.hosts[i].ranks.size() == 1) node.link = one.nodes.front().link;
    }
  }
}

}  // namespace

FoundCluster found_cluster(const std::vector<runtime::HostDevices>& processes,
                           const std::vector<device::Machine>& machines,
                           const std::vector<ProcessLink>& links) {
  const std::vector<std::string> hosts = hosts_of(processes);
  const std::vector<std::set<int>> cores = cores_to_count(processes);
  std::map<std::string, std::set<int>> cores_of_machine;
  std::map<std::string, device::Machine> measured;
  for (std::size_t rank = 0; rank < processes.size(); ++rank) {
    const std::string& machine = processes[rank].machine;
    cores_of_machine[machine].insert(cores[rank].begin(), cores[rank].end());
    measured.try_emplace(machine, machines.at(rank));
  }
  FoundCluster found{.hosts = {}, .links = links_by_host(links, hosts)};
  std::map<std::string, int> named;
  for (const std::vector<int>& ranks : ranks_by_host(hosts)) {
    const runtime::HostDevices& first = processes[static_cast<std::size_t>(ranks.front())];
    std::set<int> here;
    for (const int rank : ranks) {
      const std::set<int>& own = cores[static_cast<std::size_t>(rank)];
      here.insert(own.begin(), own.end());
    }
    const int number = ++named[first.host];
    const device::Machine& machine = measured.at(first.machine);
    found.hosts.push_back(
        {.name = number > 1 ? fmt::format("{} ({})", first.host, number) : first.host,
         .ranks = ranks,
         .cores = static_cast<int>(here.size()),
         .memory = machine.memory / static_cast<double>(cores_of_machine.at(first.machine).size()),
         .machine = machine});
  }
  return found;
}

FoundCluster find_cluster(transport::Processes& all, const std::vector<runtime::HostDevices>& processes,
                          const std::vector<GpuSlice>& gpus) {
  if (all.rank() > 0) {
    if (!report_gpus(all.mail())) measure_machines(all, processes);
    measure_links(all);
    return {};
  }
  const std::vector<std::string> hosts = hosts_of(processes);
  const std::vector<ProcessGpus> reported = gather_gpus(all.mail(), hosts, gpus);
  if (gpus.empty()) {
    const std::vector<device::Machine> machines = measure_machines(all, processes);
    return found_cluster(processes, machines, measure_links(all, hosts));
  }
  std::vector<GpuSlice> firsts;  // of every process
  const std::size_t each = gpus.size() / hosts.size();
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) firsts.push_back(gpus[rank * each]);
  return found_gpus(processes, reported, measure_links(all, hosts, {}, firsts));
}

planner::Cluster cluster_of(const FoundCluster& found) {
  const bool several = found.hosts.size() > 1;
  planner::Cluster cluster{.name = several ? fmt::format("{} hosts", found.hosts.size()) : "this machine",
                           .kinds = {},
                           .nodes = {},
                           .network = slowest(found.links.between)};
  cluster.network.shared = several;  // all processes of a host use one interface
  const planner::LinkSpec between_processes = slowest(found.links.inside);
  for (const FoundHost& host : found.hosts) {
    planner::Node& node = cluster.nodes.emplace_back();
    node.name = host.name;
    node.link = host.ranks.size() > 1 ? between_processes : host.local;
    for (const FoundGpu& gpu : host.gpus) add_device(node, kind_index(cluster, gpu));
  }
  if (!found.has_gpus()) add_cores(found, cluster);
  return cluster;
}

FoundCluster found_gpus(const std::vector<runtime::HostDevices>& processes,
                        const std::vector<ProcessGpus>& gpus, const std::vector<ProcessLink>& links) {
  FoundCluster found = found_cluster(processes, std::vector<device::Machine>(processes.size()), links);
  for (FoundHost& host : found.hosts) {
    for (const int rank : host.ranks) {
      const ProcessGpus& own = gpus.at(static_cast<std::size_t>(rank));
      host.gpus.insert(host.gpus.end(), own.gpus.begin(), own.gpus.end());
      host.local = own.local;
    }
  }
  return found;
}

planner::DeviceKind kind_of(const FoundGpu& gpu) {
  constexpr double kMiB = 1 << 20;
  planner::DeviceKind kind = whole_kind(gpu);
  kind.memory = std::floor(kind.memory / gpu.slices / kMiB) * kMiB;
  if (gpu.slices == 1) return kind;
  kind.name += fmt::format("/{}", gpu.slices);
  kind.memory_bandwidth /= gpu.slices;
  for (auto& [precision, rate] : kind.rates) rate /= gpu.slices;
  return kind;
}

}  // namespace twobw::measure
