#include "app/measure/found_gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "app/measure/link_profile.h"
#include "core/base/bytes.h"
#include "engine/device/gpu_thread.h"

namespace twobw::measure {
namespace {

constexpr double kLocalBytes = 64 << 20;  // of the copies that the link inside a process is measured by

std::string gpus_bytes(const ProcessGpus& own) {
  ByteWriter writer;
  writer.add(own.local).add(static_cast<std::uint64_t>(own.gpus.size()));
  for (const FoundGpu& gpu : own.gpus) writer.add(std::string_view(gpu.name)).add(gpu.memory).add(gpu.slices);
  return writer.take();
}

ProcessGpus gpus_from(std::string_view bytes) {
  ByteReader reader(bytes);
  ProcessGpus told{.gpus = {}, .local = reader.take<planner::LinkSpec>()};
  const auto count = reader.take<std::uint64_t>();
  for (std::uint64_t i = 0; i < count; ++i) {
    FoundGpu& gpu = told.gpus.emplace_back();
    gpu.name = reader.take_text();
    gpu.memory = reader.take<double>();
    gpu.slices = reader.take<int>();
  }
  return told;
}

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

std::set<std::string> words_of(const std::string& name) {
  std::set<std::string> words = {""};
  std::string word;
  for (const char letter : name + ' ') {
    if (letter != ' ' && letter != '-') {
      word += letter;
      continue;
    }
    words.insert(word);
    word.clear();
  }
  return words;
}

// The catalogue's name has the words of the driver's that matter: "A100-40GB" is "NVIDIA A100-SXM4-40GB". Its
// figures are those of modules, and cards have others.
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

// Of the same name there is one kind, with the memory that all of them have.
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

}  // namespace

std::vector<ProcessGpus> ask_for_gpus(transport::Mail& mail, const std::vector<std::string>& hosts,
                                      const std::vector<GpuSlice>& gpus) {
  const std::size_t each = gpus.size() / hosts.size();
  const auto own = [&](std::size_t rank) {
    const auto first = gpus.begin() + static_cast<std::ptrdiff_t>(rank * each);
    return std::vector<GpuSlice>(first, first + static_cast<std::ptrdiff_t>(each));
  };
  const auto is_alone = [&](std::size_t rank) { return std::ranges::count(hosts, hosts[rank]) == 1; };
  for (std::size_t rank = 1; rank < hosts.size(); ++rank)
    mail.send(static_cast<int>(rank), ByteWriter().add(own(rank)).add(is_alone(rank)).take());
  if (gpus.empty()) return {};
  std::vector<ProcessGpus> all = {look_at(own(0), is_alone(0))};
  for (std::size_t rank = 1; rank < hosts.size(); ++rank)
    all.push_back(gpus_from(mail.receive(static_cast<int>(rank))));
  return all;
}

bool tell_of_gpus(transport::Mail& mail) {
  const std::string bytes = mail.receive(0);
  ByteReader reader(bytes);
  const auto slices = reader.take_list<GpuSlice>();
  const bool measures = reader.take<bool>();
  if (slices.empty()) return false;
  mail.send(0, gpus_bytes(look_at(slices, measures)));
  return true;
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

planner::Cluster cluster_of_gpus(const FoundCluster& found) {
  const bool several = found.hosts.size() > 1;
  planner::Cluster cluster{.name = several ? fmt::format("{} hosts", found.hosts.size()) : "this machine",
                           .kinds = {},
                           .nodes = {},
                           .network = slowest(found.links.between)};
  if (several) cluster.network.shared = true;
  const planner::LinkSpec between_processes = slowest(found.links.inside);
  for (const FoundHost& host : found.hosts) {
    planner::Node node{
        .name = host.name, .islands = {}, .link = host.ranks.size() > 1 ? between_processes : host.local};
    for (const FoundGpu& gpu : host.gpus) add_device(node, kind_index(cluster, gpu));
    cluster.nodes.push_back(node);
  }
  return cluster;
}

}  // namespace twobw::measure
