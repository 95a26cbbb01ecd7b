#include "planning/planner/search/places.h"

#include <gtest/gtest.h>

#include "tests/planning/planner/problems.h"

namespace twobw::planner {
namespace {

constexpr int kAll = 1 << 20;

Places places_of(const Cluster& cluster, int replicas, int spread, int stages, int most = kAll) {
  std::vector<double> speeds;
  for (std::size_t i = 0; i < cluster.kinds.size(); ++i) speeds.push_back(1.0 / (1 + i));
  return {cluster, speeds, replicas, spread, stages, most};
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
