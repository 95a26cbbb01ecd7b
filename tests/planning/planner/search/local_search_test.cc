#include "planning/planner/search/local_search.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "planning/planner/costs/simulated_cost.h"
#include "planning/planner/search/search.h"
#include "tests/planning/planner/problems.h"

namespace twobw::planner {
namespace {

// Two nodes of two devices; 6 layers on the first, in two stages of 3.
class LocalSearchTest : public testing::Test {
 protected:
  LocalSearchTest() {
    problem_.batch = 16;
    problem_.costs[0].columns.push_back(problem_.costs[0].columns[0]);
    problem_.costs[0].columns[1].microbatch = 2;
    plan_.shape = {.schedule = schedule::Kind::TwoBW, .stages = 2, .microbatch = 1, .microbatches = 16};
    plan_.stages = {{.first_layer = 0, .last_layer = 3, .nodes = {0}, .devices = {1}},
                    {.first_layer = 3, .last_layer = 6, .nodes = {0}, .devices = {0}}};
  }

  // Each as "ends of the stages e gradients b".
  std::vector<std::string> all() const {
    std::vector<std::string> texts;
    for (const Plan& plan : local_moves(problem_, plan_)) {
      std::string text;
      for (const StagePlan& stage : plan.stages) text += fmt::format("{} ", stage.last_layer);
      texts.push_back(fmt::format("{}e{} g{} b{} m{}", text, plan.shape.extra,
                                  plan.shape.double_buffer_gradients ? 2 : 1, plan.shape.microbatch,
                                  plan.shape.microbatches));
    }
    return texts;
  }

  Problem problem_ = uniform_problem(2, 2, 6);
  Plan plan_;
};

TEST_F(LocalSearchTest, DifferInOneThing) {
  EXPECT_EQ(all(), (std::vector<std::string>{"3 6 e1 g2 b1 m16", "3 6 e2 g2 b1 m16", "3 6 e0 g1 b1 m16",
                                             "2 6 e0 g2 b1 m16", "4 6 e0 g2 b1 m16", "3 6 e0 g2 b2 m8",
                                             "6 e0 g2 b1 m16", "1 3 6 e0 g2 b1 m16", "3 4 6 e0 g2 b1 m16"}));
}

TEST_F(LocalSearchTest, WhatIsFixedStays) {
  problem_.fixed = {.stages = 2, .microbatch = 1, .extra = 1, .double_buffer_gradients = true};
  plan_.shape.extra = 1;
  EXPECT_EQ(all(), (std::vector<std::string>{"2 6 e1 g2 b1 m16", "4 6 e1 g2 b1 m16"}));
}

TEST_F(LocalSearchTest, ABoundaryMovesToTheNextThatHandsOnNoMore) {
  problem_.fixed = {.stages = 2, .microbatch = 1, .extra = 0, .double_buffer_gradients = true};
  std::vector<LayerCost>& layers = problem_.costs[0].columns[0].layers;
  layers[1].output = layers[3].output = 4 * layers[2].output;
  EXPECT_EQ(all(), (std::vector<std::string>{"2 6 e0 g2 b1 m16", "1 6 e0 g2 b1 m16", "4 6 e0 g2 b1 m16",
                                             "5 6 e0 g2 b1 m16"}));
}

// On the first stage's node as long as there is room, then on the other.
TEST_F(LocalSearchTest, AStageMoreTakesTheNextDevices) {
  const auto first_of_three = [&] {
    const std::vector<Plan> plans = local_moves(problem_, plan_);
    return std::ranges::find(plans, plan_.stages.size() + 1,
                             [](const Plan& plan) { return plan.stages.size(); })
        ->stages.front();
  };
  EXPECT_EQ(first_of_three().nodes, std::vector<int>{1});
  EXPECT_EQ(first_of_three().devices, std::vector<int>{0});
  problem_.cluster.nodes[0].islands[0].count = 3;
  EXPECT_EQ(first_of_three().nodes, std::vector<int>{0});
  EXPECT_EQ(first_of_three().devices, std::vector<int>{2});
}

TEST_F(LocalSearchTest, FewMicrobatchesAllowLittle) {
  plan_.shape.microbatches = problem_.batch = 2;  // d+e at least
  problem_.fixed.double_buffer_gradients = true;
  EXPECT_EQ(all(), (std::vector<std::string>{"2 6 e0 g2 b1 m2", "4 6 e0 g2 b1 m2", "6 e0 g2 b1 m2"}));
}

// The better of each pair of neighbours, until none is.
TEST_F(LocalSearchTest, AClimbEndsWhereTheWorkIsEven) {
  problem_.fixed = {.stages = 2, .microbatch = 1};
  plan_.stages[0].last_layer = plan_.stages[1].first_layer = 1;
  Estimate estimate = evaluate(problem_, plan_);
  estimate.plan.simulated_tokens_per_s = simulated_tokens_per_s(problem_, estimate.plan);
  const double before = estimate.plan.simulated_tokens_per_s;
  double work = 1e4;
  local_search(problem_, estimate, work);
  EXPECT_EQ(estimate.plan.stages[0].last_layer, 3);
  EXPECT_NEAR(estimate.plan.simulated_tokens_per_s / before, 5.0 / 3, 0.01);
  EXPECT_LT(work, 1e4);
  EXPECT_GT(work, 0);
  double none = 0;
  Estimate stays = evaluate(problem_, plan_);
  local_search(problem_, stays, none);
  EXPECT_EQ(stays.plan.stages[0].last_layer, 1);
}

}  // namespace
}  // namespace twobw::planner
