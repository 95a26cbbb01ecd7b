#include "planning/planner/search/configuration.h"

#include "planning/planner/costs/cost_tables.h"
#include "planning/planner/costs/roofline.h"
#include "tests/planning/planner/planner_testing.h"
#include "tests/planning/planner/problems.h"

namespace twobw::planner {
namespace {

Config small_config() {
  Config config;
  config.model = {.layers = 2, .width = 32, .heads = 4, .vocab = 64, .context = 16};
  config.pipeline.stages = 2;
  config.pipeline.replicas = 2;
  config.pipeline.microbatch = 3;
  config.pipeline.microbatches = 4;
  return config;
}

Problem small_problem(const Config& config) {
  Cluster cluster = uniform_problem(1, 4, 1).cluster;
  cluster.kinds[0] = {.name = "x", .memory = 1e9, .flops = 1e9, .memory_bandwidth = 1e9};
  std::vector<CostTable> costs = modelled_tables(config, cluster, {3});
  Problem problem = problem_of(config, std::move(cluster), std::move(costs));
  problem.fixed.stages = 2;
  problem.fixed.replicas = 2;
  return problem;
}

TEST(Configuration, SaysAllButTheHardware) {
  const Config config = small_config();
  const Problem problem = small_problem(config);
  EXPECT_EQ(problem.batch, 2 * 3 * 4);
  EXPECT_EQ(problem.context, 16);
  EXPECT_EQ(problem.layers.size(), 12u);
  EXPECT_EQ(problem.layers[0].kind, "embedding");
  EXPECT_EQ(problem.layers[0].parameters, (64 + 16) * 32);
  EXPECT_EQ(problem.layers[0].tied, 64 * 32);
  EXPECT_EQ(problem.state.master, 4);
  EXPECT_EQ(problem.synchronous_state->master, 0);
}

TEST(Configuration, LimitsTheMemoryOfADevice) {
  Config config = small_config();
  config.pipeline.memory_limit = 0.5;
  EXPECT_EQ(small_problem(config).cluster.kinds[0].memory, 0.5 * (1 << 30));
  config.pipeline.memory_limit = 5;
  EXPECT_EQ(small_problem(config).cluster.kinds[0].memory, 1e9);
}

TEST(Configuration, GpusHaveFixedPlaces) {
  Config config = small_config();
  config.devices = {"cuda:0/4"};
  const Cluster cluster = uniform_problem(1, 4, 1).cluster;
  std::vector<CostTable> costs = uniform_problem(1, 4, 1).costs;
  EXPECT_FALSE(problem_of(config, cluster, costs).state.fixed_places);
  costs[0].fixed_places = true;
  const Problem problem = problem_of(config, cluster, costs);
  EXPECT_TRUE(problem.state.fixed_places);
  EXPECT_TRUE(problem.synchronous_state->fixed_places);
}

TEST(Configuration, TakesAPlansChoices) {
  Plan plan{.shape = {.schedule = schedule::Kind::Flush,
                      .replicas = 2,
                      .microbatch = 5,
                      .microbatches = 6,
                      .extra = 1},
            .stages = {{.first_layer = 0, .last_layer = 7, .devices = {3, 1}},
                       {.first_layer = 7, .last_layer = 12, .recompute = true, .devices = {0, 2}}}};
  Config config = small_config();
  config.devices = {"cpu:7"};
  config.plan = "auto";
  const Config unnamed = with_plan(config, plan, {});
  EXPECT_EQ(unnamed.plan, "none");
  EXPECT_EQ(unnamed.pipeline.schedule, ScheduleKind::Flush);
  EXPECT_EQ(unnamed.pipeline.stages, 2);
  EXPECT_EQ(unnamed.pipeline.replicas, 2);
  EXPECT_EQ(unnamed.pipeline.microbatch, 5);
  EXPECT_EQ(unnamed.pipeline.microbatches, 6);
  EXPECT_EQ(unnamed.pipeline.extra, 1);
  EXPECT_TRUE(unnamed.pipeline.double_buffer_gradients);
  plan.shape.double_buffer_gradients = false;
  EXPECT_FALSE(with_plan(config, plan, {}).pipeline.double_buffer_gradients);
  EXPECT_TRUE(unnamed.pipeline.predict);
  plan.shape.predict = false;
  EXPECT_FALSE(with_plan(config, plan, {}).pipeline.predict);
  EXPECT_EQ(unnamed.pipeline.split, (std::vector<int>{7, 5}));
  EXPECT_EQ(unnamed.pipeline.recompute, std::vector<int>{1});
  EXPECT_TRUE(unnamed.devices.empty());
  // Whole pipelines one after another.
  EXPECT_EQ(with_plan(config, plan, {"a", "b", "c", "d"}).devices,
            (std::vector<std::string>{"d", "a", "b", "c"}));
}

TEST(Configuration, IsPlannedAsItStands) {
  Config config = small_config();
  config.pipeline.split = {4, 8};
  config.pipeline.recompute = {0};
  const Plan plan = plan_as_configured(config, small_problem(config));
  ASSERT_EQ(plan.stages.size(), 2u);
  EXPECT_EQ(plan.stages[0].last_layer, 4);
  EXPECT_EQ(plan.stages[1].first_layer, 4);
  EXPECT_EQ(plan.stages[1].last_layer, 12);
  EXPECT_TRUE(plan.stages[0].recompute);
  EXPECT_FALSE(plan.stages[1].recompute);
  EXPECT_GT(plan.tokens_per_s, 0);
  EXPECT_TRUE(plan.shape.double_buffer_gradients);
  config.pipeline.double_buffer_gradients = false;
  Problem problem = small_problem(config);
  problem.fixed.schedule = schedule::Kind::TwoBW;
  problem.fixed.stages = 2;
  const Plan single = plan_as_configured(config, problem);
  EXPECT_FALSE(single.shape.double_buffer_gradients);
  EXPECT_LT(single.stages[1].memory[Term::Gradients], plan.stages[1].memory[Term::Gradients]);
  config.pipeline.split = {4, 4};
  EXPECT_EQ(refusal_of([&] { plan_as_configured(config, small_problem(config)); }),
            "pipeline.split covers 8 layers; it must cover the model's 12");
}

// A slow and a fast device in one node; the last stage's memory fits none when it is small.
Problem unlike_problem(const Config& config, double fast_memory) {
  Cluster cluster{.kinds = {{.name = "slow", .memory = 1e9, .flops = 1e9, .memory_bandwidth = 1e9},
                            {.name = "fast", .memory = fast_memory, .flops = 1e10, .memory_bandwidth = 1e10}},
                  .nodes = {{.islands = {{.kind = 0, .count = 1}, {.kind = 1, .count = 1}}, .link = kNoLink}},
                  .network = kNoLink};
  std::vector<CostTable> costs = modelled_tables(config, cluster, {3});
  return problem_of(config, std::move(cluster), std::move(costs));
}

std::vector<int> kinds_of(const Plan& plan) {
  std::vector<int> kinds;
  for (const StagePlan& stage : plan.stages) kinds.push_back(stage.kind);
  return kinds;
}

TEST(Configuration, StageThatFitsNoFasterDeviceIsOnSlower) {
  Config config = small_config();
  config.pipeline.replicas = 1;
  config.pipeline.split = {10, 2};
  const double little = 1e5;
  const Plan plan = plan_as_configured(config, unlike_problem(config, little));
  EXPECT_EQ(kinds_of(plan), (std::vector{0, 1}));
  // Nothing fits.
  config.pipeline.memory_limit = 1e-6;
  const Plan closest = plan_as_configured(config, unlike_problem(config, little));
  EXPECT_EQ(closest.shape.split, config.pipeline.split);
  EXPECT_GT(closest.tokens_per_s, 0);
}

}  // namespace
}  // namespace twobw::planner
