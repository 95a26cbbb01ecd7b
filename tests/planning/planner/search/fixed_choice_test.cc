// A choice with the number of stages fixed is not faster than the free one by more than 2%, by simulation.
#include <gtest/gtest.h>

#include "planning/planner/costs/simulated_cost.h"
#include "planning/planner/search/search.h"
#include "tests/planning/planner/networks.h"

namespace twobw::planner {
namespace {

// Tokens a second; 0: no plan.
double simulated_choice(const Problem& problem) {
  const SearchResult result = search(problem, {.suggestions = false});
  return result.best ? simulated_tokens_per_s(problem, result.best->plan) : 0;
}

void expect_free_choice_is_best(Problem problem) {
  const double free = simulated_choice(problem);
  ASSERT_GT(free, 0);
  for (int stages = 1; stages <= problem.cluster.device_count(); ++stages) {
    problem.fixed.stages = stages;
    EXPECT_LE(simulated_choice(problem), 1.02 * free) << stages << " stages";
  }
}

TEST(FixedChoice, TwoKindsOfDevicesOnAFastNetwork) {
  Cluster cluster{.kinds = {known_device("A100-40GB"), known_device("RTX 4090")},
                  .network = {.latency = 30e-6, .bandwidth = 10e9 / 8}};
  cluster.nodes = {{.islands = {{.kind = 0, .count = 2}}, .link = {.latency = 5e-6, .bandwidth = 12e9}},
                   {.islands = {{.kind = 1, .count = 4}}, .link = {.latency = 5e-6, .bandwidth = 150e9}}};
  ModelConfig model = gpt_model(8, 512, 1024);
  model.vocab = 256;
  expect_free_choice_is_best(problem_on(cluster, model, 32));
}

}  // namespace
}  // namespace twobw::planner
