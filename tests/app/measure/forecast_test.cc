#include "app/measure/forecast.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "planning/planner/costs/estimate.h"
#include "planning/planner/costs/stage_timing.h"
#include "tests/planning/planner/problems.h"

namespace twobw::measure {
namespace {

const WireLink kInHost{.latency = 1e-3, .one_way = 4e9, .both_ways = 4e9};
const WireLink kBetweenHosts{.latency = 0.5, .one_way = 1e6, .both_ways = 1e6};

// Processes with `each` devices; every letter is a host.
DevicesOfProcesses processes_on(const std::string& hosts, int each) {
  DevicesOfProcesses shared;
  for (const char host : hosts) {
    shared.hosts.emplace_back(1, host);
    for (int i = 0; i < each; ++i) shared.names.push_back("cpu:" + std::to_string(i));
  }
  for (const std::vector<RankPair>& round : rounds_of(shared.hosts)) {
    for (const RankPair& pair : round)
      shared.links.push_back({pair, hosts[pair.asks] == hosts[pair.answers] ? kInHost : kBetweenHosts});
  }
  return shared;
}

planner::Cluster one_process(int devices) {
  planner::Cluster own = planner::uniform_problem(1, devices, 1).cluster;
  own.nodes[0].link = {.latency = 1e-6, .bandwidth = 1e10};
  return own;
}

TEST(SharedCluster, OfOneWorkerAProcessHasNodesThatAreHosts) {
  const auto [cluster, nodes] = shared_cluster(one_process(2), processes_on("aabb", 2), 1);
  EXPECT_EQ(nodes, (std::vector<int>{0, 0, 1, 1}));
  ASSERT_EQ(cluster.nodes.size(), 2u);
  EXPECT_EQ(cluster.device_count(), 4);
  EXPECT_EQ(cluster.nodes[0].link, spec_of(kInHost));
  EXPECT_EQ(cluster.network.bandwidth, 1e6);
  EXPECT_TRUE(cluster.network.shared);
}

TEST(SharedCluster, OfOneHost_SeveralWorkers_ProcessesAreNodes) {
  const auto [cluster, nodes] = shared_cluster(one_process(2), processes_on("aa", 2), 2);
  EXPECT_EQ(nodes, (std::vector<int>{0, 1}));
  EXPECT_EQ(cluster.device_count(), 4);
  EXPECT_EQ(cluster.nodes[0].link.bandwidth, 1e10);
  EXPECT_EQ(cluster.network, spec_of(kInHost));
}

TEST(SharedCluster, OfOneProcessAHostHasTheLinkOfThreadsInside) {
  const auto [cluster, nodes] = shared_cluster(one_process(3), processes_on("ab", 3), 3);
  EXPECT_EQ(nodes, (std::vector<int>{0, 1}));
  EXPECT_EQ(cluster.nodes[1].link.bandwidth, 1e10);
  EXPECT_EQ(cluster.network.bandwidth, 1e6);
}

planner::Problem problem_of_blocks(int devices, int layers, int batch) {
  planner::Problem problem = planner::uniform_problem(1, devices, layers);
  problem.cluster = one_process(devices);
  problem.batch = batch;
  return problem;
}

TEST(PlansToShare, PutEveryWorkerOnTheProcessThatItsNumberSays) {
  // Ranks go from host to host and back: 0 and 2 are on one, 1 and 3 on the other.
  const DevicesOfProcesses shared = processes_on("abab", 2);
  for (const PlacedPlan& placed : plans_to_share(problem_of_blocks(2, 8, 16), {}, shared)) {
    const int stages = static_cast<int>(std::ssize(placed.plan.stages));
    const int workers = stages * placed.plan.shape.replicas, each = workers / 4;
    EXPECT_EQ(workers % 4, 0);
    for (int worker = 0; worker < workers; ++worker) {
      const planner::StagePlan& stage = placed.plan.stages[worker % stages];
      EXPECT_EQ(stage.nodes[worker / stages], worker / each % 2) << worker << " of " << workers;
    }
  }
}

TEST(PlansToShare, CoverEveryShareOfWorkersAndReplicas) {
  std::set<std::pair<int, int>> found;
  for (const PlacedPlan& placed : plans_to_share(problem_of_blocks(2, 8, 16), {}, processes_on("ab", 2)))
    found.insert({static_cast<int>(placed.plan.stages.size()), placed.plan.shape.replicas});
  EXPECT_EQ(found, (std::set<std::pair<int, int>>{{2, 1}, {1, 2}, {4, 1}, {2, 2}, {1, 4}}));
}

TEST(PlansToShare, ForecastWithTheLinksThatWereMeasured) {
  const auto rate = [](const DevicesOfProcesses& shared) {
    const auto plans = plans_to_share(problem_of_blocks(1, 8, 16), {}, shared);
    const auto pipeline =
        std::ranges::find_if(plans, [](const PlacedPlan& placed) { return placed.plan.shape.replicas == 1; });
    EXPECT_NE(pipeline, plans.end());
    EXPECT_DOUBLE_EQ(planner::evaluate(pipeline->problem, pipeline->plan).plan.tokens_per_s,
                     pipeline->plan.tokens_per_s);
    return pipeline->plan.tokens_per_s;
  };
  DevicesOfProcesses slow = processes_on("ab", 1);
  slow.links[0].link.both_ways = 1e3;  // 100 s for the activations of a microbatch
  EXPECT_LT(rate(slow), 0.5 * rate(processes_on("ab", 1)));
  // A plan that people would rather have may cost a little.
  EXPECT_LE(rate(processes_on("ab", 1)), 1.03 * rate(processes_on("aa", 1)));
}

// Replaces each core by a GPU.
DevicesOfProcesses with_gpus(DevicesOfProcesses shared) {
  for (std::string& name : shared.names) name = "cuda:" + name.substr(name.find(':') + 1);
  return shared;
}

TEST(PlansToShare, HaveAsManyReplicasAsGpusMayHave) {
  const DevicesOfProcesses shared = processes_on(std::string(34, 'a'), 1);
  const auto most_replicas = [](const DevicesOfProcesses& devices) {
    int most = 0;
    for (const PlacedPlan& placed : plans_to_share(problem_of_blocks(1, 8, 34), {}, devices))
      most = std::max(most, placed.plan.shape.replicas);
    return most;
  };
  EXPECT_EQ(most_replicas(shared), 34);
  EXPECT_EQ(most_replicas(with_gpus(shared)), 17);
}

TEST(PlansToShare, TellAGpuOfEachProcess) {
  EXPECT_TRUE(first_gpus(processes_on("ab", 2)).empty());
  DevicesOfProcesses shared = processes_on("aa", 2);
  shared.names = {"cuda:0", "cuda:1", "cuda:1/4.2", "cuda:1/4.3"};
  const std::vector<GpuSlice> gpus = first_gpus(shared);
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(describe(gpus[0]), "cuda:0");
  EXPECT_EQ(describe(gpus[1]), "cuda:1/4.2");
}

TEST(PlansToShare, SayWhatWasMeasured) {
  const std::vector<std::string> lines = describe_links(processes_on("aabb", 1));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], "measured between processes of a host: 32 Gbit/s each way while both are full, 1 ms");
  EXPECT_EQ(lines[1], "measured between hosts: 8 Mbit/s each way while both are full, 500 ms");
  EXPECT_EQ(describe_links(with_gpus(processes_on("ab", 1))),
            std::vector<std::string>{
                "measured over NCCL between hosts: 8 Mbit/s each way while both are full, 500 ms"});
}

}  // namespace
}  // namespace twobw::measure
