// On random clusters of unlike devices and links, time model and simulator agree on the chosen plan.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "planning/planner/costs/simulated_cost.h"
#include "planning/planner/search/search.h"
#include "tests/planning/planner/networks.h"
#include "tests/planning/planner/problems.h"
#include "tests/support/covering.h"

namespace twobw::planner {
namespace {

template <class T>
T one_of(Dice& dice, std::initializer_list<T> values) {
  return *(values.begin() + dice.integer(0, static_cast<int>(values.size()) - 1));
}

DeviceKind device(double gibibytes, double teraflops) {
  return {.memory = gibibytes * (1 << 30), .memory_bandwidth = 2e12, .rates = {{"fp16", teraflops * 1e12}}};
}

// Up to eight nodes of up to four devices, of two kinds; links inside and between them differ by 250 times.
Cluster unlike_nodes(Dice& dice) {
  Cluster cluster;
  cluster.kinds = {device(one_of(dice, {8, 24}), 80), device(one_of(dice, {3, 80}), one_of(dice, {40, 400}))};
  for (int kinds = dice.integer(1, 4); kinds > 0; --kinds) {
    const int kind = dice.chance(1.0 / 3) ? 0 : 1, devices = one_of(dice, {1, 1, 2, 3, 4});
    const LinkSpec link{
        .latency = 10e-6, .bandwidth = one_of(dice, {1e9, 20e9, 150e9}), .shared = dice.chance(0.2)};
    cluster.nodes.insert(cluster.nodes.end(), one_of(dice, {1, 1, 2}),
                         {.islands = {{.kind = kind, .count = devices}}, .link = link});
  }
  cluster.network = {.latency = one_of(dice, {20e-6, 1e-3, 10e-3}),
                     .bandwidth = one_of(dice, {12.5e6, 125e6, 1.25e9, 3.125e9}),
                     .shared = dice.chance(2.0 / 3)};
  return cluster;
}

Problem problem_on_unlike_nodes(std::uint64_t seed) {
  Dice dice(seed);
  const Cluster cluster = unlike_nodes(dice);
  const ModelConfig model =
      one_of(dice, {gpt_model(4, 512, 512), gpt_model(12, 768, 512), gpt_model(24, 1024, 512)});
  return problem_on(cluster, model, one_of(dice, {8, 32, 128}));
}

// By the formula, of that by simulation.
double ratio_of_choice(const Problem& problem, std::string& plan) {
  const SearchResult result = search(problem, {.suggestions = false});
  if (!result.best) return 1;
  plan = in_short(result.best->plan);
  return result.best->plan.tokens_per_s / simulated_tokens_per_s(problem, result.best->plan);
}

TEST(RandomClusters, FormulaAndSimulatorAgreeOnTheChosenPlan) {
  const int problems = full_sweeps() ? 150 : 50;
  int close = 0, pipelines = 0;
  for (std::uint64_t seed = 0; static_cast<int>(seed) < problems; ++seed) {
    std::string plan;
    const double ratio = ratio_of_choice(problem_on_unlike_nodes(seed), plan);
    EXPECT_NEAR(ratio, 1, 0.15) << "problem " << seed << ": " << plan;
    close += std::abs(ratio - 1) <= 0.1;
    pipelines += plan.find(" d=1 ") == std::string::npos;
  }
  EXPECT_GE(close, problems * 0.98);
  EXPECT_GE(pipelines, problems / 4);
}

// Two devices with a slow link that is not shared: an update takes at least as long as its tie.
TEST(RandomClusters, ATieOverASlowLinkThatIsNotShared) {
  Cluster cluster{.name = "a pair", .kinds = {device(80, 400)}};
  cluster.nodes = {{.islands = {{.kind = 0, .count = 2}}, .link = {.latency = 10e-6, .bandwidth = 1e9}}};
  cluster.network = kNoLink;
  ModelConfig model = gpt_model(24, 1024, 512);
  model.vocab = 50304;
  const Problem problem = problem_on(cluster, model, 32);
  const SearchResult result = search(problem);
  const Plan& plan = result.best->plan;
  EXPECT_NEAR(plan.tokens_per_s / simulated_tokens_per_s(problem, plan), 1, 0.02) << in_short(plan);
  const double tie = 4.0 * model.vocab * model.width / 1e9;
  EXPECT_TRUE(plan.stages.size() == 1 || plan.update_seconds >= tie) << in_short(plan);
}

}  // namespace
}  // namespace twobw::planner
