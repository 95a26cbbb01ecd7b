#include "tests/planning/planner/search/exhaustive.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/base/error.h"
#include "planning/planner/search/search.h"
#include "tests/planning/planner/problems.h"
#include "tests/support/covering.h"

namespace twobw::planner {
namespace {

std::optional<Estimate> searched(const Problem& problem) {
  try {
    SearchResult result = search(problem, {.simulate = 0, .suggestions = false});
    EXPECT_TRUE(result.exact);
    return result.best;
  } catch (const InputError&) {
    return std::nullopt;  // contradictory
  }
}

// Little less memory than the best plan with two gradient buffers would take.
void make_tight(std::uint64_t seed, Problem& problem) {
  for (DeviceKind& kind : problem.cluster.kinds) kind.memory = 1e9;
  problem.fixed.double_buffer_gradients = true;
  const std::optional<Estimate> best = searched(problem);
  double most = 0;
  for (const StagePlan& stage : best->plan.stages) most = std::max(most, stage.memory.total());
  const double part = Dice(seed).real(0.75, 1);
  for (DeviceKind& kind : problem.cluster.kinds) kind.memory = part * most / (1 - problem.margin);
  problem.fixed.double_buffer_gradients.reset();
}

struct Counts {
  int pipelines = 0, replicas = 0, recomputed = 0, extra = 0, one_gradient = 0, none = 0;
};

// Unless sweeps are complete, the costly ones take a part of their problems.
const int kPart = full_sweeps() ? 1 : 3;

// The search against trying everything, on random problems.
struct Comparison {
  int problems;
  std::uint64_t seed;
  Size size;
  bool all_recomputations = false;
  bool one_schedule = false;
  bool fix_some = false;
  bool fix_stages = false;
  bool gradients = false;     // only 2bw, one or two gradient buffers
  bool predict_well = false;  // only 2bw, that predicts from half of a batch at least
  bool shards = false;        // replicas share the optimizer's state, and nothing runs on true weights

  Counts run() const {
    Counts counts;
    for (int i = 0; i < problems; ++i) {
      using schedule::Kind;
      Problem problem = random_problem(seed + i, size);
      if (one_schedule) problem.fixed.schedule = std::vector{Kind::TwoBW, Kind::Flush, Kind::GPipe}[i % 3];
      if (fix_some) planner::fix_some(seed + i, problem);
      if (fix_stages) planner::fix_stages(seed + i, problem);
      problem.fixed.predict = i % 2 == 0;
      problem.links = false;  // see exhaustive_links_test.cc
      for (CostTable& table : problem.costs) table.predict_per_parameter = table.step_per_parameter / 2;
      if (predict_well) {
        problem.fixed.schedule = Kind::TwoBW;
        problem.fixed.predict = true;
        problem.predict_well = true;
      }
      if (shards) {
        problem.fixed.shard_state = true;
        if (problem.fixed.predict == true) problem.fixed.double_buffer_gradients = false;
      }
      if (gradients) {
        problem.fixed.schedule = Kind::TwoBW;
        problem.batch = 4 + i % 13;
        if (i % 2 == 0) problem.fixed.recompute = false;
        make_tight(seed + i, problem);
      }
      const std::optional<Estimate> best = Exhaustive(problem, all_recomputations).best();
      const std::optional<Estimate> found = searched(problem);
      EXPECT_EQ(best.has_value(), found.has_value()) << "problem " << seed + i;
      if (best && found) {
        EXPECT_TRUE(found->fits());
        const double part = found->plan.sequences_per_s / best->plan.sequences_per_s;
        EXPECT_NEAR(part, 1, 1e-8) << "problem " << seed + i;
        count(found->plan, counts);
        if (!found->plan.shape.double_buffer_gradients && !problem.fixed.double_buffer_gradients)
          ++counts.one_gradient;
      }
      if (!best) ++counts.none;
    }
    return counts;
  }

  static void count(const Plan& plan, Counts& counts) {
    if (plan.stages.size() > 1) ++counts.pipelines;
    if (plan.stages.size() > 1 && plan.shape.replicas > 1) ++counts.replicas;
    if (plan.shape.extra > 0) ++counts.extra;
    for (const StagePlan& stage : plan.stages) {
      if (!stage.recompute) continue;
      ++counts.recomputed;
      break;
    }
  }
};

TEST(Exhaustive, SmallProblemsWithEveryChoice) {
  const Counts counts = Comparison{.problems = 600,
                                   .seed = 1000,
                                   .size = {.most_nodes = 3,
                                            .most_devices = 4,
                                            .most_kinds = 3,
                                            .most_layers = 4,
                                            .microbatch_sizes = 2},
                                   .all_recomputations = true}
                            .run();
  // The problems are of all sorts.
  EXPECT_GT(counts.pipelines, 100);
  EXPECT_GT(counts.replicas, 4);
  EXPECT_GT(counts.recomputed, 20);
  EXPECT_GT(counts.extra, 15);
  EXPECT_GT(counts.none, 50);
  EXPECT_LT(counts.none, 300);
}

TEST(Exhaustive, EightUnlikeDevices) {
  const Counts counts = Comparison{.problems = 100 / kPart,
                                   .seed = 37000,
                                   .size = {.most_nodes = 8,
                                            .most_devices = 8,
                                            .most_kinds = 8,
                                            .most_layers = 6,
                                            .microbatch_sizes = 1},
                                   .one_schedule = true}
                            .run();
  EXPECT_GT(counts.pipelines, 30 / kPart);
}

TEST(Exhaustive, PlacesOfStagesThatAreFixed) {
  const Counts counts = Comparison{.problems = 300,
                                   .seed = 52000,
                                   .size = {.most_nodes = 4,
                                            .most_devices = 6,
                                            .most_kinds = 4,
                                            .most_layers = 7,
                                            .microbatch_sizes = 1},
                                   .fix_stages = true}
                            .run();
  EXPECT_GT(counts.pipelines, 70);
  EXPECT_GT(counts.recomputed, 30);
}

TEST(Exhaustive, SeveralNodesOfSeveralDevices) {
  const Counts counts = Comparison{.problems = 400 / kPart,
                                   .seed = 9000,
                                   .size = {.most_nodes = 4,
                                            .most_devices = 8,
                                            .most_kinds = 3,
                                            .most_layers = 6,
                                            .microbatch_sizes = 1},
                                   .one_schedule = true}
                            .run();
  EXPECT_GT(counts.replicas, 10 / kPart);
}

TEST(Exhaustive, TwelveLayers) {
  const Counts counts = Comparison{.problems = 150 / kPart,
                                   .seed = 7000,
                                   .size = {.most_nodes = 3,
                                            .most_devices = 4,
                                            .most_kinds = 3,
                                            .most_layers = 12,
                                            .microbatch_sizes = 1},
                                   .one_schedule = true}
                            .run();
  EXPECT_GT(counts.pipelines, 40 / kPart);
}

TEST(Exhaustive, OneOrTwoGradientBuffers) {
  const Counts counts = Comparison{.problems = 500 / kPart,
                                   .seed = 83000,
                                   .size = {.most_nodes = 3,
                                            .most_devices = 6,
                                            .most_kinds = 2,
                                            .most_layers = 6,
                                            .microbatch_sizes = 2},
                                   .gradients = true}
                            .run();
  EXPECT_GT(counts.one_gradient, 40 / kPart);
  EXPECT_GT(counts.pipelines, 100 / kPart);
}

TEST(Exhaustive, PredictingWell) {
  const Counts counts = Comparison{.problems = 300,
                                   .seed = 47000,
                                   .size = {.most_nodes = 3,
                                            .most_devices = 6,
                                            .most_kinds = 2,
                                            .most_layers = 6,
                                            .microbatch_sizes = 2},
                                   .predict_well = true}
                            .run();
  EXPECT_GT(counts.pipelines, 50);
}

TEST(Exhaustive, ReplicasThatShareTheState) {
  const Counts counts = Comparison{.problems = 150,
                                   .seed = 7700,
                                   .size = {.most_nodes = 3,
                                            .most_devices = 6,
                                            .most_kinds = 1,
                                            .most_layers = 3,
                                            .microbatch_sizes = 2},
                                   .shards = true}
                            .run();
  EXPECT_GT(counts.replicas, 5);
}

TEST(Exhaustive, SomeChoicesFixed) {
  const Counts counts = Comparison{.problems = 300 / kPart,
                                   .seed = 61000,
                                   .size = {.most_nodes = 3,
                                            .most_devices = 5,
                                            .most_kinds = 3,
                                            .most_layers = 5,
                                            .microbatch_sizes = 2},
                                   .all_recomputations = true,
                                   .fix_some = true}
                            .run();
  EXPECT_GT(counts.extra, 20 / kPart);
}

}  // namespace
}  // namespace twobw::planner
