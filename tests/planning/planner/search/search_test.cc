#include "planning/planner/search/search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "planning/planner/costs/simulated_cost.h"
#include "tests/planning/planner/planner_testing.h"
#include "tests/planning/planner/problems.h"

namespace twobw::planner {
namespace {

using schedule::Kind;

const Candidate& candidate(const SearchResult& result, Kind schedule, int replicas) {
  for (const Candidate& candidate : result.candidates) {
    if (candidate.schedule == schedule && candidate.replicas == replicas) return candidate;
  }
  throw std::runtime_error("no such candidate");
}

TEST(Search, LikeDevicesAndFreeLinksAreUsedToTheFull) {
  Problem problem = uniform_problem(2, 4, 16);
  problem.batch = 64;
  const SearchResult result = search(problem);
  ASSERT_TRUE(result.best);
  EXPECT_TRUE(result.exact);
  EXPECT_DOUBLE_EQ(result.best->plan.utilisation, 1);
  EXPECT_DOUBLE_EQ(result.best->plan.sequences_per_s, 8 / (16 * 3.0));
  EXPECT_NEAR(result.best->plan.simulated_tokens_per_s, result.best->plan.tokens_per_s, 1e-9);
}

// Without links to pay for all replicas are as fast as all stages, but keep the weights several times.
TEST(Search, AmongEquallyFastPlansTheOneWithLeastMemoryWins) {
  Problem problem = uniform_problem(1, 4, 8);
  problem.batch = 16;
  const SearchResult result = search(problem, kByTheModel);
  ASSERT_TRUE(result.best);
  for (const Candidate& candidate : result.candidates) {
    if (candidate.status != Status::Slower || candidate.ratio < 1 - 1e-9) continue;
    EXPECT_GE(candidate.best->footprint, result.best->footprint) << name(candidate);
  }
  EXPECT_EQ(result.best->plan.shape.replicas, 1);
  EXPECT_EQ(candidate(result, Kind::Flush, 4).ratio, 1);
}

TEST(Search, FamiliesSayWhyTheyLost) {
  Problem problem = uniform_problem(1, 4, 8);
  problem.batch = 6;
  problem.cluster.nodes[0].link = {.latency = 0, .bandwidth = 1e6};  // 4 s to reduce a layer's gradients
  problem.cluster.kinds[0].memory = 100e6;                           // half of the layers
  const SearchResult result = search(problem, kByTheModel);
  ASSERT_TRUE(result.best);
  EXPECT_EQ(result.candidates.front().status, Status::Best);
  EXPECT_EQ(result.candidates.front().reason, "");
  EXPECT_EQ(result.candidates.front().ratio, 1);
  EXPECT_EQ(result.candidates.size(), 4 * 4);
  EXPECT_EQ(name(result.candidates.front()), "2bw, 1 replica");

  const Candidate& flush = candidate(result, Kind::Flush, 1);
  EXPECT_EQ(flush.status, Status::Slower);
  EXPECT_DOUBLE_EQ(flush.ratio, flush.best->plan.sequences_per_s / result.best->plan.sequences_per_s);
  EXPECT_EQ(flush.reason, fmt::format("{:.1f}% less throughput", 100 * (1 - flush.ratio)));
  const Candidate& parallel = candidate(result, Kind::TwoBW, 4);
  EXPECT_EQ(parallel.status, Status::Memory);
  EXPECT_GT(parallel.best->over, 0);
  EXPECT_TRUE(parallel.reason.starts_with("memory of stage 0 by ")) << parallel.reason;
}

TEST(Search, ABatchTooSmallForManyReplicasIsNotAllowed) {
  Problem problem = uniform_problem(1, 4, 4);
  problem.batch = 2;
  const SearchResult result = search(problem, kByTheModel);
  EXPECT_EQ(candidate(result, Kind::Flush, 2).status, Status::Slower);
  EXPECT_EQ(candidate(result, Kind::Flush, 3).status, Status::NotAllowed);
  EXPECT_EQ(candidate(result, Kind::Flush, 3).reason, "a batch of 2 is too small for 3 replicas");
}

TEST(Search, WhatIsFixedStaysFixed) {
  Problem problem = uniform_problem(2, 4, 12);
  problem.batch = 64;
  problem.fixed.schedule = Kind::Flush;
  problem.fixed.stages = 3;
  problem.fixed.replicas = 2;
  problem.fixed.microbatches = 10;
  problem.fixed.extra = 1;
  problem.fixed.recompute = true;
  const SearchResult result = search(problem);
  ASSERT_TRUE(result.best);
  const Plan& plan = result.best->plan;
  EXPECT_EQ(plan.shape.schedule, Kind::Flush);
  EXPECT_EQ(plan.stages.size(), 3);
  EXPECT_EQ(plan.shape.replicas, 2);
  EXPECT_EQ(plan.shape.microbatches, 10);
  EXPECT_EQ(plan.shape.extra, 1);
  for (const StagePlan& stage : plan.stages) EXPECT_TRUE(stage.recompute);
}

// A plan that could have two buffers has them, and one that has no use for them does not say otherwise.
TEST(Search, PlansWithOneGradientBufferHaveNoRoomForTwo) {
  int single = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    Problem problem = random_problem(
        seed,
        {.most_nodes = 4, .most_devices = 8, .most_kinds = 3, .most_layers = 10, .microbatch_sizes = 2});
    problem.fixed.double_buffer_gradients.reset();
    for (const Candidate& candidate : search(problem, {.simulate = 0, .suggestions = false}).candidates) {
      if (!candidate.best || !candidate.best->fits() || candidate.best->plan.shape.double_buffer_gradients)
        continue;
      Plan two = candidate.best->plan;
      two.shape.double_buffer_gradients = true;
      EXPECT_FALSE(evaluate(problem, two).fits()) << "problem " << seed;
      ++single;
    }
  }
  EXPECT_GT(single, 5);
}

TEST(Search, EveryPlanUsesADeviceOnce) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Problem problem = random_problem(
        seed,
        {.most_nodes = 5, .most_devices = 12, .most_kinds = 3, .most_layers = 9, .microbatch_sizes = 2});
    const SearchResult result = search(problem, {.simulate = 0, .suggestions = false});
    if (!result.best) continue;
    std::set<std::pair<int, int>> used;
    for (const StagePlan& stage : result.best->plan.stages) {
      for (std::size_t i = 0; i < stage.nodes.size(); ++i) {
        EXPECT_TRUE(used.emplace(stage.nodes[i], stage.devices[i]).second);
        int first = 0, kind = -1;
        for (const Island& island : problem.cluster.nodes[stage.nodes[i]].islands) {
          if (stage.devices[i] >= first && stage.devices[i] < first + island.count) kind = island.kind;
          first += island.count;
        }
        EXPECT_EQ(kind, stage.kind);
      }
    }
  }
}

TEST(Search, ThePlanIsTheSameEveryTime) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Problem problem = random_problem(
        seed,
        {.most_nodes = 5, .most_devices = 12, .most_kinds = 3, .most_layers = 9, .microbatch_sizes = 2});
    const SearchResult a = search(problem), b = search(problem);
    EXPECT_EQ(a.stages, b.stages);
    ASSERT_EQ(a.best.has_value(), b.best.has_value());
    if (!a.best) continue;
    ASSERT_EQ(a.best->plan.stages.size(), b.best->plan.stages.size());
    for (std::size_t r = 0; r < a.best->plan.stages.size(); ++r) {
      EXPECT_EQ(a.best->plan.stages[r].last_layer, b.best->plan.stages[r].last_layer);
      EXPECT_EQ(a.best->plan.stages[r].nodes, b.best->plan.stages[r].nodes);
    }
  }
}

TEST(Search, TheSimulatorHasTheLastWord) {
  Problem problem = uniform_problem(2, 4, 16);
  problem.batch = 32;
  problem.fixed.predict = false;
  problem.cluster.network = {.latency = 0.1, .bandwidth = 3e4, .shared = true};
  for (Node& node : problem.cluster.nodes) node.link = {.latency = 0.01, .bandwidth = 2e5, .shared = true};
  const SearchResult result = search(problem, {.simulate = 4});
  ASSERT_TRUE(result.best);
  const double best = result.best->plan.simulated_tokens_per_s;
  int simulated = 0;
  for (const Candidate& candidate : result.candidates) {
    if (!candidate.best || candidate.best->plan.simulated_tokens_per_s == 0) continue;
    ++simulated;
    EXPECT_LE(candidate.best->plan.simulated_tokens_per_s, best * (1 + 1e-9));
    EXPECT_DOUBLE_EQ(candidate.ratio, candidate.best->plan.simulated_tokens_per_s / best);
    const Plan& plan = candidate.best->plan;
    const double sequences = 1.0 * plan.shape.microbatch * plan.shape.microbatches * plan.shape.replicas;
    EXPECT_DOUBLE_EQ(plan.simulated_tokens_per_s,
                     sequences / simulated_update(problem, plan) * problem.context);
  }
  EXPECT_GE(simulated, 2);
  EXPECT_LE(simulated, 4);
}

TEST(Search, AInfeasibilitySaysByHowMuchAndWhatWouldHelp) {
  Problem problem = uniform_problem(1, 2, 8);
  problem.batch = 8;
  problem.cluster.kinds[0].memory = 40e6;
  problem.margin = 0.2;
  problem.fixed.recompute = false;
  problem.fixed.schedule = Kind::GPipe;
  const SearchResult result = search(problem);
  EXPECT_FALSE(result.best);
  ASSERT_TRUE(result.infeasibility);
  const Estimate& closest = result.infeasibility->closest;
  EXPECT_GT(closest.over, 0);
  const auto offers = [&](const std::string& text) {
    const auto& suggestions = result.infeasibility->suggestions;
    return std::any_of(suggestions.begin(), suggestions.end(), [&](const std::string& suggestion) {
      return suggestion.find(text) != std::string::npos;
    });
  };
  EXPECT_TRUE(offers("4 times as many nodes"));
  EXPECT_TRUE(offers("more memory on every device"));
  EXPECT_FALSE(offers("recomputation"));  // the weights alone are too large
  // The memory that is offered is just enough.
  problem.cluster.kinds[0].memory += closest.over / 0.8 + 1;
  EXPECT_TRUE(search(problem).best);
  problem.cluster.kinds[0].memory -= 100;
  EXPECT_FALSE(search(problem).best);
}

TEST(Search, TheHalfPrecisionThatIsOfferedIsOneThatTheDevicesHave) {
  Problem problem = uniform_problem(1, 2, 8);
  problem.batch = 8;
  problem.fixed.recompute = false;
  for (CostTable& table : problem.costs) {
    for (CostColumn& column : table.columns) {
      for (LayerCost& layer : column.layers) layer.saved_bytes = 1e9;
    }
  }
  // At the most memory that is not enough.
  const auto offered = [&](const std::map<std::string, double>& rates, const char* format) {
    DeviceKind& kind = problem.cluster.kinds[0];
    kind.rates = rates;
    for (kind.memory = 128e9; kind.memory > 1e8; kind.memory *= 0.9) {
      const SearchResult result = search(problem, {.simulate = 0});
      if (!result.best) return std::ranges::count(result.infeasibility->suggestions, format) == 1;
    }
    return false;
  };
  EXPECT_TRUE(offered({{"fp32", 1e12}, {"fp16", 2e12}}, "fp16"));
  EXPECT_TRUE(offered({{"fp32", 1e12}, {"fp16", 2e12}, {"bf16", 2e12}}, "bf16"));
  EXPECT_TRUE(offered({}, "bf16"));
}

TEST(Search, ContradictionsAreRefusedInOneSentence) {
  const auto refused = [](const std::function<void(Problem&)>& change) {
    Problem problem = uniform_problem(1, 4, 6);
    problem.batch = 8;
    change(problem);
    return refusal_of([&] { search(problem); });
  };
  EXPECT_EQ(refused([](Problem& p) { p.cluster.nodes.clear(); }),
            "the cluster has no devices; a plan needs at least one");
  EXPECT_EQ(refused([](Problem& p) { p.fixed.stages = 7; }),
            "pipeline.stages is 7; the model has 6 layers, so at most 6");
  EXPECT_EQ(refused([](Problem& p) { p.fixed.stages = 5; }),
            "pipeline.stages is 5; with 1 replica and 4 devices it can be at most 4");
  EXPECT_EQ(refused([](Problem& p) { p.fixed.replicas = 5; }),
            "pipeline.replicas is 5; the cluster has 4 devices, so at most 4");
  EXPECT_EQ(refused([](Problem& p) { p.fixed.replicas = 0; }),
            "pipeline.replicas is 0; it must be at least 1");
  EXPECT_EQ(refused([](Problem& p) { p.fixed.microbatch = 3; }),
            "pipeline.microbatch is 3; times are known for 1");
  EXPECT_EQ(refused([](Problem& p) { p.fixed.microbatches = 9; }),
            "the batch is 8; with 9 microbatches of 1 on 1 replica it must be at least 9");
  EXPECT_EQ(refused([](Problem& p) { p.fixed.schedule = Kind::Stash; }),
            "pipeline.schedule is stash; plans are made for 2bw, flush, gpipe and sequential");
  EXPECT_EQ(refused([](Problem& p) { p.margin = 1; }),
            "the memory margin is 1; it must be at least 0 and below 1");
  for (bool predict : {true, false}) {
    const std::string sentence = refused([&](Problem& p) {
      p.fixed.schedule = Kind::TwoBW;
      p.fixed.stages = 4;
      p.fixed.microbatches = 2;
      p.fixed.predict = predict;
    });
    const std::string bound = predict ? "d+e = 4" : "d-1+e = 3";
    EXPECT_NE(sentence.find("the smallest allowed m is " + bound), std::string::npos) << sentence;
  }
  EXPECT_EQ(refused([](Problem& p) {
              p.cluster.nodes[0].islands = {{.kind = 0, .count = 2}};
              p.cluster.nodes.push_back({.islands = {{.kind = 0, .count = 1}}, .link = kNoLink});
              p.fixed.replicas = 3;
            }),
            "no plan satisfies the fixed settings: no way to place it");
}

// A change that is for the better never makes the best plan slower.
void expect_no_worse(const std::function<void(Dice&, Problem&)>& improve,
                     const std::function<void(Dice&, Problem&)>& prepare = {}) {
  int better = 0;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    Problem problem = random_problem(
        seed,
        {.most_nodes = 4, .most_devices = 8, .most_kinds = 3, .most_layers = 10, .microbatch_sizes = 2});
    const auto throughput = [&] {
      const SearchResult result = search(problem, {.simulate = 0, .suggestions = false});
      return result.best ? result.best->plan.sequences_per_s : 0;
    };
    Dice dice(seed);
    if (prepare) prepare(dice, problem);
    const double before = throughput();
    improve(dice, problem);
    const double after = throughput();
    EXPECT_GE(after, before * (1 - 1e-8)) << "problem " << seed;
    if (after > before * (1 + 1e-6)) ++better;
  }
  EXPECT_GT(better, 5);
}

TEST(SearchProperty, MoreMemory) {
  expect_no_worse([](Dice& dice, Problem& problem) {
    problem.cluster.kinds[dice.integer(0, static_cast<int>(problem.cluster.kinds.size()) - 1)].memory *=
        dice.real(1, 2);
  });
}

TEST(SearchProperty, AChoiceOfGradientBuffers) {
  expect_no_worse([](Dice& dice, Problem& problem) { problem.fixed.double_buffer_gradients.reset(); },
                  [](Dice& dice, Problem& problem) {
                    problem.fixed.schedule = Kind::TwoBW;
                    problem.fixed.double_buffer_gradients = dice.chance(0.5);
                  });
}

TEST(SearchProperty, MoreBandwidth) {
  expect_no_worse([](Dice& dice, Problem& problem) {
    const double times = dice.real(1, 3);
    for (Node& node : problem.cluster.nodes) node.link.bandwidth *= times;
    problem.cluster.network.bandwidth *= dice.real(1, 3);
  });
}

TEST(SearchProperty, FasterDevices) {
  expect_no_worse([](Dice& dice, Problem& problem) {
    CostTable& table = problem.costs[dice.integer(0, static_cast<int>(problem.costs.size()) - 1)];
    for (CostColumn& column : table.columns) {
      for (LayerCost& cost : column.layers) {
        cost.forward *= 0.7;
        cost.backward *= 0.8;
      }
    }
  });
}

}  // namespace
}  // namespace twobw::planner
