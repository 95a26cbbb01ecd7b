// On slow networks that all of a node's devices share, the time model says what the simulator says.
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "planning/planner/costs/simulated_cost.h"
#include "planning/planner/search/search.h"
#include "tests/planning/planner/networks.h"

namespace twobw::planner {
namespace {

const ModelConfig& model_named(const std::vector<NamedModel>& models, const std::string& name) {
  for (const NamedModel& model : models) {
    if (model.name == name) return model.config;
  }
  throw std::out_of_range(name);
}

void expect_agreement(const Cluster& cluster, const std::string& model, int batch,
                      const PartialShape& fixed = {}) {
  const std::vector<NamedModel> models = usual_models();
  Problem problem = problem_on(cluster, model_named(models, model), batch);
  problem.fixed = fixed;
  const SearchResult result = search(problem);
  ASSERT_TRUE(result.best);
  const Plan& plan = result.best->plan;
  EXPECT_NEAR(plan.tokens_per_s / simulated_tokens_per_s(problem, plan), 1, 0.1)
      << cluster.name << ", " << model << ", " << batch << ": " << in_short(plan);
}

TEST(SharedLinks, OneFastHostAndOneOfThreeSlowerDevices) {
  const Cluster cluster =
      hosts_on_network("H100, 3 x RTX 4090 on one host, 10G", {{"H100"}, {"RTX 4090", 1, 3}}, kPcie, 10);
  for (const NamedModel& model : usual_models()) {
    if (model.name == "GPT 8B") continue;  // does not fit
    for (int batch : {32, 128, 512}) expect_agreement(cluster, model.name, batch);
  }
}

TEST(SharedLinks, EightHostsOfEightDevices) {
  const Cluster cluster = hosts_on_network("8 x 8 V100, 25G", {{"V100-16GB", 8, 8}}, kNvLink, 25);
  for (int batch : {32, 128, 512}) expect_agreement(cluster, "GPT 2.2B", batch);
  expect_agreement(cluster, "GPT 1.3B", 512);
  expect_agreement(cluster, "GPT 8B", 128);
  expect_agreement(cluster, "GPT 8B", 512);
  expect_agreement(cluster, "Llama 1B", 128);
}

// The last stage's part of a tie shares its node's end of the network with the sums of the stages there.
TEST(SharedLinks, FlushWithATieAndSums) {
  const Cluster cluster = hosts_on_network("8 x 8 V100, 10G", {{"V100-16GB", 8, 8}}, kNvLink, 10);
  expect_agreement(cluster, "GPT 350M", 512, {.schedule = schedule::Kind::Flush, .replicas = 4});
  expect_agreement(cluster, "GPT 350M", 512, {.schedule = schedule::Kind::GPipe, .replicas = 4});
  expect_agreement(cluster, "GPT 350M", 512);
}

// With more in flight a gradient waits for a forward on every stage, and the tie for the first stage's end.
TEST(SharedLinks, ATieAndMoreInFlight) {
  const Cluster cluster = hosts_on_network("2 x 4 A100, 25G", {{"A100-40GB", 2, 4}}, kNvLink, 25);
  expect_agreement(cluster, "GPT 2.2B", 32);
}

// A tie passes the first node's end and the last one's; what the nodes between send it does not slow.
TEST(SharedLinks, ATieBesideCrossingsOfOtherNodes) {
  const Cluster cluster = hosts_on_network("8 x 8 V100, 25G", {{"V100-16GB", 8, 8}}, kNvLink, 25);
  expect_agreement(cluster, "BERT-large", 128, {.replicas = 2, .microbatch = 1, .extra = 0});
}

// Tokens a second by simulation.
double simulated_choice(const Cluster& cluster, const std::string& model, int batch) {
  const std::vector<NamedModel> models = usual_models();
  const Problem problem = problem_on(cluster, model_named(models, model), batch);
  return simulated_tokens_per_s(problem, search(problem).best->plan);
}

// The formula with all that links do puts others before these plans.
TEST(SharedLinks, WhatOneFormulaThinksLittleOfIsSimulated) {
  const Cluster slow = hosts_on_network("4 hosts of RTX 4090, 1G", {{"RTX 4090", 4, 1}}, kPcie, 1);
  EXPECT_GT(simulated_choice(slow, "GPT 350M", 512), 50e3);
  const Cluster single = hosts_on_network("4 hosts of RTX 4090, 10G", {{"RTX 4090", 4, 1}}, kPcie, 10);
  EXPECT_GT(simulated_choice(single, "GPT 350M", 32), 95e3);
  const Cluster pairs = hosts_on_network("2 x 2 A100, 10G", {{"A100-40GB", 2, 2}}, kPcie, 10);
  EXPECT_GT(simulated_choice(pairs, "BERT-large", 128), 220e3);
}

}  // namespace
}  // namespace twobw::planner
