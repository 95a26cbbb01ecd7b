#include "planning/planner/costs/transfers.h"

#include <algorithm>
#include <vector>

#include "core/simulator/simulate.h"

namespace twobw::planner {
namespace {

simulator::Channel channel(const LinkSpec& link, double bandwidth) {
  return {.latency = link.latency, .bandwidth = bandwidth};
}

// `count` replicas on one node.
struct Share {
  int node = 0, count = 0;
};
std::vector<Share> shares(std::vector<int> nodes) {
  std::sort(nodes.begin(), nodes.end());
  std::vector<Share> result;
  for (int node : nodes) {
    if (result.empty() || result.back().node != node) result.push_back({.node = node});
    ++result.back().count;
  }
  return result;
}

}  // namespace

Transfer transfer(const LinkSpec& link, int at_once, double bytes) {
  const double busy = (link.shared ? at_once : 1) * bytes / link.bandwidth;
  return {.seconds = link.latency + busy, .busy = busy};
}

Site site_of(const Cluster& cluster, const StagePlan& stage) {
  const std::vector<Share> replicas = shares(stage.nodes);
  Site site{.kind = stage.kind, .nodes = static_cast<int>(replicas.size()), .per_node = 0};
  for (auto [node, count] : replicas) {
    const LinkSpec& link = cluster.nodes[node].link;
    if (site.per_node == 0 || link.bandwidth < site.inside.bandwidth) site.inside = link;
    site.per_node = std::max(site.per_node, count);
  }
  return site;
}

Transfer transfer_between(const Cluster& cluster, const StagePlan& from, const StagePlan& to, double bytes) {
  std::vector<int> staying, leaving, coming;  // nodes, one for each replica
  for (std::size_t i = 0; i < from.nodes.size(); ++i) {
    if (from.nodes[i] == to.nodes[i]) {
      staying.push_back(from.nodes[i]);
    } else {
      leaving.push_back(from.nodes[i]);
      coming.push_back(to.nodes[i]);
    }
  }
  Transfer slowest;
  const auto include = [&](const LinkSpec& link, int at_once) {
    const Transfer one = transfer(link, at_once, bytes);
    slowest = {std::max(slowest.seconds, one.seconds), std::max(slowest.busy, one.busy)};
  };
  for (auto [node, count] : shares(staying)) include(cluster.nodes[node].link, count);
  for (const auto* crossing : {&leaving, &coming}) {
    for (auto [node, count] : shares(*crossing)) include(cluster.network, count);
  }
  return slowest;
}

Transfer all_reduce(const LinkSpec& network, const Site& site, double bytes) {
  if (site.nodes * site.per_node == 1) return {};
  // All devices of a ring send at once.
  const double inside = site.inside.bandwidth / (site.inside.shared ? site.per_node : 1);
  if (site.nodes == 1)
    return {.seconds = simulator::ring_all_reduce(bytes, site.per_node, channel(site.inside, inside))};
  const double between = network.bandwidth * (network.shared ? 1 : site.per_node);
  const double seconds = simulator::hierarchical_all_reduce(
      bytes, site.nodes, site.per_node, channel(site.inside, inside), channel(network, between));
  const simulator::Channel no_latency{.latency = 0, .bandwidth = between};
  return {.seconds = seconds,
          .busy = network.shared ? simulator::ring_all_reduce(bytes, site.nodes, no_latency) : 0};
}

}  // namespace twobw::planner
