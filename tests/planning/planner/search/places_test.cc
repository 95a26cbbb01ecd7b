#include "planning/planner/search/places.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/planning/planner/problems.h"

namespace twobw::planner {
namespace {

constexpr int kAll = 1 << 20;

// Every pipeline of exactly `stages` stages, the first stage first, as "node:first device" of replica 0.
std::set<std::string> pipelines(const Places& places, int stages) {
  std::set<std::string> found;
  const auto walk = [&](const auto& self, int place, const std::string& after) -> void {
    const Place& where = places.all()[place];
    std::string text = after;
    if (where.stages > 0) {
      StagePlan stage;
      places.site(place, stage);
      text = std::to_string(stage.nodes.front()) + ":" + std::to_string(stage.devices.front()) +
             (after.empty() ? "" : " ") + after;
    }
    if (where.stages == stages) found.insert(text);
    for (const Advance& advance : where.next) self(self, advance.place, text);
  };
  walk(walk, 0, "");
  return found;
}

Places places_of(const Cluster& cluster, int replicas, int spread, int stages, int most = kAll) {
  std::vector<double> speeds;
  for (std::size_t i = 0; i < cluster.kinds.size(); ++i) speeds.push_back(1.0 / (1 + i));
  return {cluster, speeds, replicas, spread, stages, most};
}

TEST(Placement, LikeNodesAreFilledOneAfterAnother) {
  const Problem problem = uniform_problem(3, 2, 1);
  const Places places = places_of(problem.cluster, 1, 1, 9);
  EXPECT_EQ(pipelines(places, 3), (std::set<std::string>{"1:0 0:1 0:0"}));
  EXPECT_EQ(places.all().size(), 1 + 6);
  EXPECT_EQ(places.all().front().reach, 6);
}

TEST(Placement, ReplicasShareANodeOrAreSpreadOverNodes) {
  const Problem problem = uniform_problem(4, 4, 1);
  StagePlan stage;
  places_of(problem.cluster, 4, 1, 9).site(2, stage);
  EXPECT_EQ(stage.nodes, (std::vector<int>{1, 1, 1, 1}));
  EXPECT_EQ(stage.devices, (std::vector<int>{0, 1, 2, 3}));
  places_of(problem.cluster, 4, 2, 9).site(2, stage);
  EXPECT_EQ(stage.nodes, (std::vector<int>{0, 0, 1, 1}));
  EXPECT_EQ(stage.devices, (std::vector<int>{2, 3, 2, 3}));
  places_of(problem.cluster, 4, 4, 9).site(2, stage);
  EXPECT_EQ(stage.nodes, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(stage.devices, (std::vector<int>{1, 1, 1, 1}));
  // Too many for a node are spread all the same.
  const Places large = places_of(problem.cluster, 8, 1, 9);
  large.site(1, stage);
  EXPECT_EQ(stage.nodes, (std::vector<int>{0, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(large.all().front().reach, 2);
}

TEST(Placement, SpreadsThatGroupTheSameNodesCountOnce) {
  const Problem problem = uniform_problem(4, 4, 1);
  EXPECT_EQ(distinct_spreads(problem.cluster, 4), (std::vector<int>{1, 2, 4}));
  EXPECT_EQ(distinct_spreads(problem.cluster, 8), (std::vector<int>{1, 4}));  // 2 nodes at least
  EXPECT_EQ(distinct_spreads(problem.cluster, 16), (std::vector<int>{1}));
  EXPECT_TRUE(distinct_spreads(problem.cluster, 32).empty());
}

Cluster two_kinds() {
  Cluster cluster;
  cluster.kinds = {{.name = "fast"}, {.name = "slow"}};
  cluster.nodes = {{.islands = {{.kind = 0, .count = 1}}}, {.islands = {{.kind = 1, .count = 2}}}};
  return cluster;
}

TEST(Placement, UnlikeNodesComeInAnyOrderAndMayBeLeftOutOrHalfEmpty) {
  const Places places = places_of(two_kinds(), 1, 1, 3);
  EXPECT_EQ(pipelines(places, 1), (std::set<std::string>{"0:0", "1:0"}));
  EXPECT_EQ(pipelines(places, 2), (std::set<std::string>{"0:0 1:0", "1:0 0:0", "1:1 1:0"}));
  EXPECT_EQ(pipelines(places, 3), (std::set<std::string>{"0:0 1:1 1:0", "1:1 1:0 0:0"}));
  EXPECT_EQ(places.restriction(), "");
}

TEST(Placement, IslandsOfANodeAreNeighbours) {
  Cluster cluster = two_kinds();
  const Node mixed{.islands = {{.kind = 0, .count = 1}, {.kind = 1, .count = 1}}};
  cluster.nodes = {mixed, mixed};
  EXPECT_EQ(
      pipelines(places_of(cluster, 1, 1, 4), 4),
      (std::set<std::string>{"1:0 1:1 0:0 0:1", "1:0 1:1 0:1 0:0", "1:1 1:0 0:0 0:1", "1:1 1:0 0:1 0:0"}));
}

TEST(Placement, TooManyWaysAreCutDownAndSaidSo) {
  Cluster cluster;
  for (int kind = 0; kind < 4; ++kind) {
    cluster.kinds.push_back({.name = "kind"});
    for (int i = 0; i < 3; ++i) cluster.nodes.push_back({.islands = {{.kind = kind, .count = 2}}});
  }
  const Places all = places_of(cluster, 1, 1, 24);
  EXPECT_EQ(all.restriction(), "");
  std::size_t before = all.all().size();
  for (int most : {2000, 400, 60}) {
    const Places fewer = places_of(cluster, 1, 1, 24, most);
    EXPECT_NE(fewer.restriction(), "");
    EXPECT_LT(fewer.all().size(), before);
    EXPECT_EQ(fewer.all().front().reach, 24);  // all devices can still be used
    before = fewer.all().size();
  }
}

}  // namespace
}  // namespace twobw::planner
