#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "app/measure/found_cluster.h"
#include "core/base/text.h"

namespace twobw::measure {
namespace {

const std::string& host_of(const FoundCluster& found, int rank) {
  for (const FoundHost& host : found.hosts) {
    if (std::ranges::find(host.ranks, rank) != host.ranks.end()) return host.name;
  }
  return found.hosts.front().name;
}

// "host0 - host1", or "inside host0".
std::string place_of(const FoundCluster& found, const ProcessLink& link) {
  const std::string& asks = host_of(found, link.ranks.asks);
  const std::string& answers = host_of(found, link.ranks.answers);
  return asks == answers ? "inside " + asks : asks + " - " + answers;
}

// Origin of the device figures.
const char* const kAboutCores =
    "# memory            found: that of the host, or of its container, in equal shares\n"
    "# tflops            assumed: that of a common server core; `twobw profile` measures real layers\n"
    "# memory_bandwidth  measured: what each core reads and writes while all of them copy\n"
    "# efficiency        assumed, as is the overhead\n"
    "# link              measured: between processes of a host, where it has several; else between threads\n";
const char* const kAboutGpus =
    "# memory            the vendor's figure for GPUs that the catalogue knows, else found\n"
    "# tflops            the vendor's, as is memory_bandwidth; `twobw profile` measures real layers\n"
    "# efficiency        assumed, as is the overhead\n"
    "# A slice of a GPU has its part of all of these.\n"
    "# link              measured over NCCL: between GPUs of two processes of a host; where it has one "
    "process\n"
    "#                   with several GPUs or slices, by copies on the first, as between slices: between "
    "GPUs\n"
    "#                   set it by hand\n";

TextTable table_of_hosts(const FoundCluster& found) {
  const bool gpus = found.has_gpus();
  TextTable hosts(
      {"host", "processes", gpus ? "GPUs" : "cores", "memory each", gpus ? "device" : "processor"});
  hosts.align_right({1, 2, 3});
  for (const FoundHost& host : found.hosts) {
    std::set<std::string> memory, names;
    if (!gpus) {
      memory = {format_bytes(host.memory)};
      names = {host.machine.processor};
    }
    for (const FoundGpu& gpu : host.gpus) {
      memory.insert(format_bytes(kind_of(gpu).memory));
      names.insert(kind_of(gpu).name);
    }
    hosts.add({host.name, fmt::format("{}", host.ranks.size()),
               fmt::format("{}", gpus ? std::ssize(host.gpus) : host.cores),
               fmt::format("{}", fmt::join(memory, ", ")), fmt::format("{}", fmt::join(names, ", "))});
  }
  return hosts;
}

std::vector<ProcessLink> all_links(const FoundCluster& found) {
  std::vector<ProcessLink> links = found.links.inside;
  links.insert(links.end(), found.links.between.begin(), found.links.between.end());
  return links;
}

}  // namespace

std::string describe(const FoundCluster& found) {
  const std::size_t processes =
      std::accumulate(found.hosts.begin(), found.hosts.end(), std::size_t{0},
                      [](std::size_t sum, const FoundHost& host) { return sum + host.ranks.size(); });
  std::string text = fmt::format("# Written by `twobw topology` in {} processes on {} host{}.\n", processes,
                                 found.hosts.size(), found.hosts.size() == 1 ? "" : "s");
  text += found.has_gpus() ? kAboutGpus : kAboutCores;
  if (found.hosts.size() > 1)
    text +=
        "# network           measured: between hosts; the slowest two count. All devices of a host share "
        "it\n";
  if (!found.links.inside.empty() || !found.links.between.empty()) {
    text +=
        "# Bandwidths are those of each direction while both are full, since activations and gradients cross "
        "at\n"
        "# the same time. As measured:\n";
  }
  for (const ProcessLink& link : all_links(found)) {
    text += fmt::format("#   {}, processes {} and {}: {}, one way alone {}, both ways {} each\n",
                        place_of(found, link), link.ranks.asks, link.ranks.answers,
                        format_latency(link.link.latency), format_bandwidth(link.link.one_way),
                        format_bandwidth(link.link.both_ways));
  }
  return text + planner::to_yaml(cluster_of(found));
}

std::string table_of(const FoundCluster& found) {
  TextTable links({"link", "processes", "latency", "one way", "both ways, each"});
  links.align_right({2, 3, 4});
  for (const ProcessLink& link : all_links(found)) {
    links.add({place_of(found, link), fmt::format("{}, {}", link.ranks.asks, link.ranks.answers),
               format_latency(link.link.latency), format_bandwidth(link.link.one_way),
               format_bandwidth(link.link.both_ways)});
  }
  return table_of_hosts(found).text() + "\n" + links.text();
}

}  // namespace twobw::measure
