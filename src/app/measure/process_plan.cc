#include "app/measure/process_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "engine/runtime/placement.h"
#include "engine/transport/sum_rounds.h"
#include "planning/planner/costs/estimate.h"
#include "planning/planner/search/search.h"

namespace twobw::measure {
namespace {

// The ranks of every node.
std::vector<std::vector<int>> ranks_by_node(const DevicesOfProcesses& shared, int each) {
  const std::vector<std::vector<int>> hosts = ranks_by_host(shared.hosts);
  if (hosts.size() > 1 || each == 1) return hosts;
  std::vector<std::vector<int>> processes;
  for (int rank = 0; rank < shared.processes(); ++rank) processes.push_back({rank});
  return processes;
}

// Where the numbers of its workers put the stages.
void place(const SharedCluster& shared, planner::Plan& plan) {
  const PipelineShape shape = planner::shape_of(plan);
  const int processes = static_cast<int>(shared.nodes.size());
  const runtime::Placement placement(shape, processes, 0);
  const int each = placement.workers_here();
  for (int stage = 0; stage < shape.stages; ++stage) {
    planner::StagePlan& stage_plan = plan.stages[static_cast<std::size_t>(stage)];
    for (int replica = 0; replica < shape.replicas; ++replica) {
      const int worker = replica * shape.stages + stage, rank = placement.rank_of(worker);
      const int node = shared.nodes[static_cast<std::size_t>(rank)];
      const auto before = std::count(shared.nodes.begin(), shared.nodes.begin() + rank, node);
      stage_plan.nodes.at(static_cast<std::size_t>(replica)) = node;
      stage_plan.devices.at(static_cast<std::size_t>(replica)) =
          static_cast<int>(before) * each + worker % each;
    }
  }
}

// On so many nodes the replicas of the first stage sit.
int spread_of(const SharedCluster& shared, int stages, int replicas) {
  const int processes = static_cast<int>(shared.nodes.size());
  std::set<int> nodes;
  for (int replica = 0; replica < replicas; ++replica) {
    const int rank = replica * stages * processes / (stages * replicas);
    nodes.insert(shared.nodes[static_cast<std::size_t>(rank)]);
  }
  return static_cast<int>(nodes.size());
}

// The search places replicas as near one another, or as far apart, as the ranks do; what it finds then moves
// to the very places.
std::optional<planner::Plan> best_plan(planner::Problem problem, const planner::Preferences& preferences,
                                       const SharedCluster& shared) {
  problem.spread = spread_of(shared, *problem.fixed.stages, *problem.fixed.replicas);
  planner::SearchResult result = planner::search_with(problem, preferences);
  if (!result.best) {
    problem.spread = 0;
    result = planner::search_with(problem, preferences);
  }
  if (!result.best) return std::nullopt;
  planner::Plan plan = result.best->plan;
  plan.simulated_tokens_per_s = 0;  // as the search had placed it
  place(shared, plan);
  return planner::evaluate(problem, std::move(plan)).plan;
}

bool has_gpus(const DevicesOfProcesses& shared) {
  return names_gpu(shared.names.front());
}

std::string describe_link(const DevicesOfProcesses& shared, const char* where,
                          const planner::LinkSpec& link) {
  return fmt::format("measured {}between {}: {} each way while both are full, {}",
                     has_gpus(shared) ? "over NCCL " : "", where, format_bandwidth(link.bandwidth),
                     format_latency(link.latency));
}

}  // namespace

std::vector<std::string> devices_of(const DevicesOfProcesses& shared, int rank, std::ptrdiff_t count) {
  const std::ptrdiff_t each = shared.each();
  const auto first = shared.names.begin() + rank * each;
  return {first, first + (count < 0 ? each : count)};
}

std::vector<GpuSlice> first_gpus(const DevicesOfProcesses& shared) {
  std::vector<GpuSlice> gpus;
  for (int rank = 0; has_gpus(shared) && rank < shared.processes(); ++rank)
    gpus.push_back(parse_gpu(devices_of(shared, rank, 1).front()).front());
  return gpus;
}

SharedCluster shared_cluster(const planner::Cluster& own, const DevicesOfProcesses& shared, int each) {
  const std::vector<std::vector<int>> nodes = ranks_by_node(shared, each);
  const bool several_hosts = ranks_by_host(shared.hosts).size() > 1;
  const LinksByHost links = links_by_host(shared.links, shared.hosts);
  const planner::LinkSpec inside = slowest(links.inside);
  const bool alone = std::ranges::all_of(nodes, [](const auto& ranks) { return ranks.size() == 1; });
  SharedCluster result{.cluster = own, .nodes = std::vector<int>(shared.hosts.size())};
  result.cluster.name = fmt::format("{} processes", shared.processes());
  result.cluster.nodes.clear();
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    for (const int rank : nodes[node]) result.nodes[static_cast<std::size_t>(rank)] = static_cast<int>(node);
    const int count = static_cast<int>(nodes[node].size()) * each;
    result.cluster.nodes.push_back({.name = fmt::format("node{}", node),
                                    .islands = {{.kind = 0, .count = count}},
                                    .link = alone ? own.nodes.front().link : inside});
  }
  result.cluster.network = several_hosts ? slowest(links.between) : inside;
  result.cluster.network.shared = several_hosts;  // all processes of a host go out by one interface
  return result;
}

std::vector<PlacedPlan> plans_to_share(const planner::Problem& problem,
                                       const planner::Preferences& preferences,
                                       const DevicesOfProcesses& shared) {
  const int most = has_gpus(shared) ? transport::kMostReplicasOnGpus : problem.batch;
  std::vector<PlacedPlan> plans;
  for (int each = 1; each <= shared.each(); ++each) {
    const SharedCluster where = shared_cluster(problem.cluster, shared, each);
    const int workers = each * shared.processes();
    for (int replicas = 1; replicas <= workers; ++replicas) {
      if (workers % replicas != 0 || replicas > std::min(problem.batch, most)) continue;
      if (workers / replicas > std::ssize(problem.layers)) continue;
      planner::Problem one = problem;
      one.cluster = where.cluster;
      one.fixed.stages = workers / replicas;
      one.fixed.replicas = replicas;
      if (auto plan = best_plan(one, preferences, where)) plans.push_back({std::move(one), std::move(*plan)});
    }
  }
  return plans;
}

std::vector<std::string> describe_links(const DevicesOfProcesses& shared) {
  std::vector<std::string> lines;
  const auto [inside, between] = links_by_host(shared.links, shared.hosts);
  if (!inside.empty()) lines.push_back(describe_link(shared, "processes of a host", slowest(inside)));
  if (!between.empty()) lines.push_back(describe_link(shared, "hosts", slowest(between)));
  return lines;
}

}  // namespace twobw::measure
