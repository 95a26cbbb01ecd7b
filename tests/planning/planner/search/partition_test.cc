#include "planning/planner/search/partition.h"

#include <gtest/gtest.h>

#include "tests/planning/planner/problems.h"

namespace twobw::planner {
namespace {

using schedule::Kind;

// One microbatch size, one replica, like devices.
struct Bench {
  Problem problem;
  Setting setting;

  Bench(int devices, int layers, Kind schedule, int microbatches)
      : problem(uniform_problem(1, devices, layers)),
        setting{.shape = {.schedule = schedule, .microbatch = 1, .microbatches = microbatches}} {}

  CostColumn& column() { return problem.costs[0].columns[0]; }
  template <typename Function>
  auto with_partition(Function function) const {
    const Places places(problem.cluster, {1}, 1, 1, static_cast<int>(problem.layers.size()), 1000);
    const LayerSums sums(problem.layers, problem.costs[0].columns[0]);
    const LayerSumsByKind by_kind = {&sums};
    Frontier::Workspace space;
    Partition partition(problem, setting, places, by_kind, problem.fixed.stages, space);
    return function(partition);
  }
  double most_throughput() const {
    const Places places(problem.cluster, {1}, 1, 1, static_cast<int>(problem.layers.size()), 1000);
    const LayerSums sums(problem.layers, problem.costs[0].columns[0]);
    return Bounds(problem, setting, places, {&sums}, problem.fixed.stages).throughput();
  }
  std::optional<Estimate> fastest() const {
    return with_partition([](Partition& partition) { return partition.solve_exactly(kUnlimited); });
  }
};

std::vector<int> cuts(const Plan& plan) {
  std::vector<int> result;
  for (const StagePlan& stage : plan.stages) result.push_back(stage.last_layer - stage.first_layer);
  return result;
}

TEST(Partition, AsFewStagesAsGiveTheSameSpeed) {
  Bench bench(4, 4, Kind::TwoBW, 8);
  bench.column().layers[2].forward = 4;  // with its backward twice as long as any other
  const std::optional<Estimate> best = bench.fastest();
  ASSERT_TRUE(best);
  EXPECT_DOUBLE_EQ(best->plan.update_seconds, 8 * 6);
  const Estimate least_memory_tie =
      bench.with_partition([&](Partition& partition) { return partition.least_memory_tie(*best); });
  EXPECT_EQ(cuts(least_memory_tie.plan), (std::vector<int>{2, 1, 1}));
  EXPECT_DOUBLE_EQ(least_memory_tie.plan.update_seconds, 8 * 6);
}

// A first stage without time to wait for the other replica has no second gradient buffer.
TEST(Partition, MoreInFlightMayTakeLessMemory) {
  Bench bench(2, 2, Kind::TwoBW, 2);
  for (LayerCost& cost : bench.column().layers) cost.saved_bytes = 0;
  bench.setting.shape.replicas = 2;
  bench.setting.shape.predict = false;
  bench.problem.state = {2, 4, 4, 8};
  bench.problem.layers[0].parameters = 1.1e6;
  bench.problem.cluster.kinds[0].memory = 23e6;
  const auto may_beat = [](Partition& partition) { return partition.may_beat(1e9); };
  EXPECT_TRUE(bench.with_partition(may_beat));
  bench.problem.cluster.kinds[0].memory = 21e6;
  EXPECT_FALSE(bench.with_partition(may_beat));
}

TEST(Partition, OneGradientBufferIsSearchedToTheEnd) {
  for (int seed = 0; seed < 60; ++seed) {
    Dice dice(seed);
    Bench bench(dice.integer(2, 5), dice.integer(5, 9), Kind::TwoBW, dice.integer(1, 12));
    bench.setting.shape.double_buffer_gradients = false;
    bench.problem.costs[0].step_per_parameter = dice.real(0, 2e-6);
    for (LayerCost& cost : bench.column().layers) {
      cost.forward = dice.real(0.2, 4);
      cost.backward = dice.real(0.2, 4);
    }
    const std::optional<Estimate> best = bench.fastest();
    ASSERT_TRUE(best);
    EXPECT_FALSE(best->plan.shape.double_buffer_gradients);
    EXPECT_GE(bench.most_throughput(), best->plan.sequences_per_s * (1 - 1e-9)) << "seed " << seed;
    bench.with_partition([&](Partition& partition) {
      EXPECT_FALSE(partition.solve_exactly(best->plan.update_seconds)) << "seed " << seed;
      EXPECT_TRUE(partition.solve_exactly(best->plan.update_seconds * 1.001)) << "seed " << seed;
    });
  }
}

TEST(Partition, OnlyWhatBeatsTheBoundIsFound) {
  for (Kind kind : {Kind::TwoBW, Kind::Flush, Kind::GPipe, Kind::Sequential}) {
    Bench bench(3, 7, kind, 6);
    const std::optional<Estimate> best = bench.fastest();
    ASSERT_TRUE(best);
    const double update = best->plan.update_seconds;
    bench.with_partition([&](Partition& partition) {
      EXPECT_FALSE(partition.solve_exactly(update));
      EXPECT_TRUE(partition.solve_exactly(update * 1.001));
      EXPECT_GE(bench.most_throughput(), best->plan.sequences_per_s);
    });
  }
}

TEST(Partition, WithTheLeastInfeasibilityMoreItFitsAndNotWithLess) {
  for (int seed = 0; seed < 60; ++seed) {
    Dice dice(seed);
    Bench bench(dice.integer(1, 6), dice.integer(6, 20), schedule::all_kinds()[seed % 4], 12);
    for (LayerShape& layer : bench.problem.layers) layer.parameters = dice.real(1e5, 3e6);
    for (LayerCost& cost : bench.column().layers) {
      cost.saved_bytes = dice.real(1e5, 1e7);
      cost.working = dice.real(1e5, 1e7);
      cost.output = dice.real(1e4, 1e6);
    }
    double& memory = bench.problem.cluster.kinds[0].memory;
    memory = 1e6;
    const std::optional<Estimate> closest =
        bench.with_partition([](Partition& partition) { return partition.least_over(); });
    ASSERT_TRUE(closest);
    const double needed = memory + closest->over;
    memory = needed * (1 + 1e-6);
    EXPECT_TRUE(bench.fastest()) << "seed " << seed;
    memory = needed * (1 - 1e-6);
    EXPECT_FALSE(bench.fastest()) << "seed " << seed;
  }
}

TEST(Partition, AGoodPlanIsNearTheBestWithFewMicrobatchesToo) {
  for (Kind kind : {Kind::TwoBW, Kind::Flush, Kind::GPipe, Kind::Sequential}) {
    for (int microbatches : {1, 2, 4, 32}) {
      Bench bench(16, 24, kind, microbatches);
      bench.problem.cluster.nodes[0].link = {.latency = 1, .bandwidth = 1e6};
      const std::optional<Estimate> best = bench.fastest();
      const std::optional<Estimate> good = bench.with_partition(
          [](Partition& partition) { return partition.solve_approximately(kUnlimited); });
      ASSERT_TRUE(best && good);
      EXPECT_LE(good->plan.update_seconds, 1.1 * best->plan.update_seconds)
          << name(kind) << " with " << microbatches;
    }
  }
}

}  // namespace
}  // namespace twobw::planner
