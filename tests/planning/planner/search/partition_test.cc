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
    return with_partition([](Partition& partition) { return partition.fastest(kUnlimited); });
  }
};

std::vector<int> cuts(const Plan& plan) {
  std::vector<int> result;
  for (const StagePlan& stage : plan.stages) result.push_back(stage.last_layer - stage.first_layer);
  return result;
}

std::vector<bool> recomputed(const Plan& plan) {
  std::vector<bool> result;
  for (const StagePlan& stage : plan.stages) result.push_back(stage.recompute);
  return result;
}

TEST(Partition, CutsUnevenLayersIntoEvenStages) {
  Bench bench(3, 6, Kind::TwoBW, 8);
  for (int layer = 0; layer < 6; ++layer) {
    bench.column().layers[layer].forward = std::vector<double>{2, 4, 6, 1, 2, 3}[layer];
    bench.column().layers[layer].backward = 0;
  }
  const std::optional<Estimate> best = bench.fastest();
  ASSERT_TRUE(best);
  EXPECT_EQ(cuts(best->plan), (std::vector<int>{2, 1, 3}));
  EXPECT_DOUBLE_EQ(best->plan.update_seconds, 8 * 6);
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

TEST(Partition, RecomputesOnlyWhereMemoryNeedsIt) {
  Bench bench(4, 8, Kind::TwoBW, 8);
  // Of two layers: 24 bytes for each of 2e6 parameters, less at both ends, and n times 2e6 saved bytes.
  bench.problem.cluster.kinds[0].memory = 48e6 + 2.5 * 2e6;
  const std::optional<Estimate> best = bench.fastest();
  ASSERT_TRUE(best);
  EXPECT_TRUE(best->fits());
  EXPECT_EQ(recomputed(best->plan), (std::vector<bool>{false, true, false, false}));
  bench.problem.fixed.recompute = false;
  EXPECT_FALSE(bench.fastest());
  bench.problem.fixed.recompute = true;
  EXPECT_EQ(recomputed(bench.fastest()->plan), (std::vector<bool>{true, true, true, true}));
}

TEST(Partition, TheFirstStageTakesFewerLayersWhereItHoldsMoreInFlight) {
  Bench bench(2, 8, Kind::GPipe, 4);
  bench.setting.shape.schedule = Kind::Flush;
  for (LayerCost& cost : bench.column().layers) cost.saved_bytes = 20e6;
  bench.problem.fixed.recompute = false;
  bench.problem.cluster.kinds[0].memory = 182e6;  // three layers with two in flight, or five with one
  const std::optional<Estimate> best = bench.fastest();
  ASSERT_TRUE(best);
  EXPECT_EQ(cuts(best->plan), (std::vector<int>{3, 5}));
}

// 20 bytes a parameter, two versions and one gradient; the last has 22, one version and two gradients.
TEST(Partition, TheFirstStageMayTakeMoreLayersThanAnyOtherCould) {
  Bench bench(2, 3, Kind::TwoBW, 8);
  for (LayerCost& cost : bench.column().layers) cost.saved_bytes = 0;
  bench.problem.state = {2, 4, 4, 8};
  bench.problem.fixed.stages = 2;
  bench.problem.cluster.kinds[0].memory = 42e6;
  const std::optional<Estimate> best = bench.fastest();
  ASSERT_TRUE(best);
  EXPECT_EQ(cuts(best->plan), (std::vector<int>{2, 1}));
}

// Where the first stage has no time to wait for the other replica it has no second gradient buffer.
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
      EXPECT_FALSE(partition.fastest(best->plan.update_seconds)) << "seed " << seed;
      EXPECT_TRUE(partition.fastest(best->plan.update_seconds * 1.001)) << "seed " << seed;
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
      EXPECT_FALSE(partition.fastest(update));
      EXPECT_TRUE(partition.fastest(update * 1.001));
      EXPECT_GE(bench.most_throughput(), best->plan.sequences_per_s);
    });
  }
}

TEST(Partition, TheLeastInfeasibilityIsThatOfTheTightestStage) {
  Bench bench(2, 4, Kind::Flush, 4);
  bench.problem.cluster.kinds[0].memory = 1e6;
  EXPECT_FALSE(bench.fastest());
  const std::optional<Estimate> closest =
      bench.with_partition([](Partition& partition) { return partition.least_over(); });
  ASSERT_TRUE(closest);
  EXPECT_EQ(cuts(closest->plan), (std::vector<int>{2, 2}));
  EXPECT_EQ(recomputed(closest->plan), (std::vector<bool>{true, false}));  // the last holds but one anyway
  EXPECT_DOUBLE_EQ(closest->over, closest->plan.stages[closest->tightest].memory.total() - 1e6);
  // With just that much more it fits.
  bench.problem.cluster.kinds[0].memory += closest->over;
  EXPECT_TRUE(bench.fastest());
  bench.problem.cluster.kinds[0].memory -= 1;
  EXPECT_FALSE(bench.fastest());
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
      const std::optional<Estimate> good =
          bench.with_partition([](Partition& partition) { return partition.good(kUnlimited); });
      ASSERT_TRUE(best && good);
      EXPECT_LE(good->plan.update_seconds, 1.1 * best->plan.update_seconds)
          << name(kind) << " with " << microbatches;
    }
  }
}

TEST(Partition, ExactlySoManyStages) {
  for (int d = 1; d <= 4; ++d) {
    Bench bench(4, 6, Kind::TwoBW, 8);
    bench.problem.fixed.stages = d;
    EXPECT_EQ(bench.fastest()->plan.stages.size(), d);
  }
  Bench bench(8, 8, Kind::TwoBW, 3);  // m = 3 allows 4 stages, or 3 that predict
  bench.setting.shape.predict = false;
  EXPECT_EQ(bench.fastest()->plan.stages.size(), 4);
  bench.problem.fixed.stages = 5;
  EXPECT_FALSE(bench.fastest());
  bench.setting.shape.predict = true;
  bench.problem.fixed.stages.reset();
  EXPECT_EQ(bench.fastest()->plan.stages.size(), 3);
  bench.problem.fixed.stages = 4;
  EXPECT_FALSE(bench.fastest());
}

// m = 5 gives the first of 3 stages 3 microbatches to predict from, of 4 stages 2.
TEST(Partition, NoMoreStagesThanPredictWellIfAsked) {
  Bench bench(4, 12, Kind::TwoBW, 5);
  EXPECT_EQ(bench.fastest()->plan.stages.size(), 4);
  bench.problem.predict_well = true;
  EXPECT_EQ(bench.fastest()->plan.stages.size(), 3);
  bench.setting.shape.schedule = Kind::Flush;
  EXPECT_EQ(bench.fastest()->plan.stages.size(), 4);
}

}  // namespace
}  // namespace twobw::planner
