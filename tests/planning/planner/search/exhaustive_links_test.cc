// Nodes on a slow shared network: the chosen plan against an enumeration of all plans, by simulation; and the
// search's claim to be exact, by the time model.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "planning/planner/costs/simulated_cost.h"
#include "planning/planner/search/search.h"
#include "tests/planning/planner/problems.h"
#include "tests/planning/planner/search/exhaustive.h"
#include "tests/support/covering.h"

namespace twobw::planner {
namespace {

// Some like nodes of one or two devices, each with one end of a network over which a transfer takes about as
// long as a layer; half of the models have a tie.
Problem problem_on_slow_network(std::uint64_t seed) {
  using schedule::Kind;
  Problem problem = random_problem(
      seed, {.most_nodes = 1, .most_devices = 1, .most_kinds = 1, .most_layers = 6, .microbatch_sizes = 1});
  Dice dice(seed + 1);
  const int devices = dice.integer(1, 2), nodes = dice.integer(3, devices == 1 ? 5 : 3);
  problem.cluster.kinds[0].memory = 1e9;
  problem.cluster.nodes.assign(
      nodes, {.islands = {{.kind = 0, .count = devices}}, .link = {.latency = 0, .bandwidth = 1e3}});
  problem.cluster.network = {.latency = dice.real(0, 0.1), .bandwidth = dice.real(0.8, 6), .shared = true};
  problem.batch = dice.integer(4, 12);
  problem.fixed = {.schedule = std::vector{Kind::TwoBW, Kind::Flush, Kind::GPipe}[seed % 3],
                   .predict = seed % 2 == 0};
  return problem;
}

// Seconds of an update at least: of the work of every stage.
double least_seconds(const Plan& plan) {
  double least = 0;
  for (const StagePlan& stage : plan.stages)
    least = std::max(least, plan.shape.microbatches * (stage.forward + stage.backward) + stage.step);
  return least;
}

// The best plan there is by simulation, with its tokens a second.
struct Best {
  Plan plan;
  double rate = 0;
};
Best best_by_simulation(const Problem& problem) {
  struct Bounded {
    Plan plan;
    double at_most;
  };
  std::vector<Bounded> plans;
  Exhaustive(problem, /*all_recomputations=*/false).each([&](const Estimate& estimate) {
    const Plan& plan = estimate.plan;
    plans.push_back({plan, plan.tokens_per_s * plan.update_seconds / least_seconds(plan)});
  });
  std::ranges::stable_sort(plans, std::greater(), &Bounded::at_most);
  Best best;
  for (auto& [plan, at_most] : plans) {
    if (at_most <= best.rate) break;
    const double rate = simulated_tokens_per_s(problem, plan);
    if (rate > best.rate) best = {std::move(plan), rate};
  }
  return best;
}

const std::uint64_t kProblems = full_sweeps() ? 1000 : 300;

// Links decide a problem if the best plan for unshared links is more than 2% slower than the best plan.
// Outputs of layers differ by 40 times here, far more than in models.
TEST(Exhaustive, WithSharedLinksNearlyAllBestPlansAreFound) {
  std::uint64_t problems = 0, missed = 0, decided = 0, missed_of_decided = 0;
  double worst = 1;
  for (std::uint64_t seed = 0; seed < kProblems; ++seed) {
    const Problem problem = problem_on_slow_network(seed);
    Problem apart = problem;
    apart.cluster.network.shared = false;
    const Best without = best_by_simulation(apart);
    if (without.plan.stages.size() < 2) continue;
    const Best best = best_by_simulation(problem);
    const bool by_links = simulated_tokens_per_s(problem, without.plan) <= 0.98 * best.rate;
    const SearchResult result = search(problem);
    const double part = simulated_tokens_per_s(problem, result.best->plan) / best.rate;
    worst = std::min(worst, part);
    ++problems;
    decided += by_links;
    missed += part < 0.98;
    missed_of_decided += by_links && part < 0.98;
  }
  EXPECT_GE(problems, kProblems / 2);
  EXPECT_LE(missed, problems / 50);
  EXPECT_GE(decided, kProblems * 7 / 100);
  EXPECT_EQ(missed_of_decided, 0u);
  EXPECT_GT(worst, 0.9);
}

// Contention is evaluated only for plans found without it. If that may hide the best plan, the search reports
// it.
TEST(Exhaustive, WithSharedLinksWhatIsSaidToBeExactIs) {
  std::uint64_t exact = 0, others = 0;
  double worst = 1;
  for (std::uint64_t seed = 0; seed < kProblems; ++seed) {
    const Problem problem = problem_on_slow_network(seed);
    const SearchResult result = search(problem, kByTheModel);
    const std::optional<Estimate> best = Exhaustive(problem, /*all_recomputations=*/false).best();
    ASSERT_EQ(result.best.has_value(), best.has_value()) << "problem " << seed;
    if (!best) continue;
    const double part = result.best->plan.sequences_per_s / best->plan.sequences_per_s;
    EXPECT_LE(part, 1 + 1e-8) << "problem " << seed;
    EXPECT_EQ(result.exact, result.restriction.empty());
    ++(result.exact ? exact : others);
    if (result.exact) {
      EXPECT_GE(part, 1 - 1e-8) << "problem " << seed;
    }
    worst = std::min(worst, part);
  }
  EXPECT_GT(exact, kProblems / 2);
  EXPECT_GT(others, kProblems / 20);
  EXPECT_GT(worst, 0.9);
}

}  // namespace
}  // namespace twobw::planner
