#include "app/measure/found_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "app/measure/found_gpus.h"
#include "core/base/bytes.h"
#include "planning/host/cores.h"
#include "planning/host/local_cluster.h"

namespace twobw::measure {
namespace {

std::string machine_bytes(const device::Machine& machine) {
  return ByteWriter()
      .add(std::string_view(machine.processor))
      .add(machine.cores)
      .add(machine.memory)
      .add(machine.copy_bandwidth)
      .add(machine.handover)
      .take();
}

device::Machine machine_from(std::string_view bytes) {
  ByteReader reader(bytes);
  device::Machine machine;
  machine.processor = reader.take_text();
  machine.cores = reader.take<int>();
  machine.memory = reader.take<double>();
  machine.copy_bandwidth = reader.take<double>();
  machine.handover = reader.take<double>();
  return machine;
}

// Whether the process is the first of its machine.
bool is_first_of_machine(const std::vector<runtime::HostDevices>& processes, std::size_t rank) {
  const auto before = processes.begin() + static_cast<std::ptrdiff_t>(rank);
  return std::none_of(processes.begin(), before, [&](const runtime::HostDevices& other) {
    return other.machine == processes[rank].machine;
  });
}

// By rank; one process of every machine measures it, for several at once would disturb one another.
std::vector<device::Machine> measure_machines(transport::Processes& all,
                                              const std::vector<runtime::HostDevices>& processes) {
  transport::Mail& mail = all.mail();
  if (all.rank() > 0) {
    const bool chosen = mail.receive(0) == "measure";
    mail.send(0, machine_bytes(chosen ? device::measure_machine() : device::Machine()));
    return {};
  }
  for (int rank = 1; rank < all.size(); ++rank)
    mail.send(rank, is_first_of_machine(processes, static_cast<std::size_t>(rank)) ? "measure" : "rest");
  std::vector<device::Machine> machines = {device::measure_machine()};
  for (int rank = 1; rank < all.size(); ++rank) machines.push_back(machine_from(mail.receive(rank)));
  return machines;
}

// By rank. Hosts of one machine share its cores; else a host has all that its processes may use.
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

// Differences that a second measurement would show too.
bool are_alike(const FoundHost& a, const FoundHost& b) {
  const auto near = [](double x, double y, double part) { return std::abs(x - y) <= part * std::max(x, y); };
  return a.machine.processor == b.machine.processor && near(a.memory, b.memory, 0.1) &&
         near(a.machine.copy_bandwidth, b.machine.copy_bandwidth, 0.3);
}

// As slow as the slowest of them.
FoundHost slower_of(const FoundHost& a, const FoundHost& b) {
  FoundHost both = a;
  both.memory = std::min(a.memory, b.memory);
  both.machine.copy_bandwidth = std::min(a.machine.copy_bandwidth, b.machine.copy_bandwidth);
  both.machine.handover = std::max(a.machine.handover, b.machine.handover);
  return both;
}

// Hosts that are alike, in the order of their first.
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

// A core and the link between cores, as a machine by itself has them.
planner::Cluster cluster_of_core(const FoundHost& host) {
  device::Machine machine = host.machine;
  machine.cores = 1;
  machine.memory = host.memory;
  return cluster_of(machine);
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
                          const LinkBudget& budget, const std::vector<GpuSlice>& gpus) {
  if (all.rank() > 0) {
    if (!tell_of_gpus(all.mail())) measure_machines(all, processes);
    measure_links(all);
    return {};
  }
  const std::vector<std::string> hosts = hosts_of(processes);
  const std::vector<ProcessGpus> told = ask_for_gpus(all.mail(), hosts, gpus);
  if (gpus.empty()) {
    const std::vector<device::Machine> machines = measure_machines(all, processes);
    return found_cluster(processes, machines, measure_links(all, hosts, budget));
  }
  std::vector<GpuSlice> firsts;  // of every process
  const std::size_t each = gpus.size() / hosts.size();
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) firsts.push_back(gpus[rank * each]);
  return found_gpus(processes, told, measure_links(all, hosts, budget, firsts));
}

planner::Cluster cluster_of(const FoundCluster& found) {
  if (found.has_gpus()) return cluster_of_gpus(found);
  const bool several = found.hosts.size() > 1;
  planner::Cluster cluster{.name = several ? fmt::format("{} hosts", found.hosts.size()) : "this machine",
                           .kinds = {},
                           .nodes = std::vector<planner::Node>(found.hosts.size()),
                           .network = slowest(found.links.between)};
  // All processes of a host go out by one interface.
  if (several) cluster.network.shared = true;
  const planner::LinkSpec between_processes = slowest(found.links.inside);
  const std::vector<HostKind> kinds = kinds_of(found.hosts);
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    const planner::Cluster one = cluster_of_core(kinds[kind].typical);
    cluster.kinds.push_back(one.kinds.front());
    if (kind > 0) cluster.kinds.back().name += fmt::format(" {}", kind + 1);
    for (const std::size_t i : kinds[kind].hosts) {
      const FoundHost& host = found.hosts[i];
      cluster.nodes[i] = {.name = host.name,
                          .islands = {{.kind = static_cast<int>(kind), .count = host.cores}},
                          .link = host.ranks.size() > 1 ? between_processes : one.nodes.front().link};
    }
  }
  return cluster;
}

}  // namespace twobw::measure
