#include "planning/planner/search/preference.h"

#include <gtest/gtest.h>

#include <map>

#include "planning/planner/report/report.h"
#include "tests/planning/planner/problems.h"

namespace twobw::planner {
namespace {

using schedule::Kind;

// 2bw with one replica is slightly faster than flush, which waits for the step, and than replicas, which sum
// gradients.
Problem close_problem() {
  Problem problem = uniform_problem(1, 4, 16);
  problem.batch = 256;
  problem.fixed.microbatch = 1;
  problem.costs[0].step_per_parameter = 1e-7;
  problem.cluster.nodes[0].link = {.latency = 0, .bandwidth = 1e9};
  return problem;
}

SearchResult preferred(const Problem& problem, const Preferences& preferences) {
  return search_with(problem, preferences, kByTheModel);
}

TEST(Preference, ToleratesNothingWhenToldSo) {
  const Problem problem = close_problem();
  const SearchResult fastest = search(problem, kByTheModel);
  const SearchResult chosen = preferred(problem, {.tolerance = 0, .cushion = false});
  EXPECT_EQ(chosen.best->plan.sequences_per_s, fastest.best->plan.sequences_per_s);
  EXPECT_EQ(fastest.best->plan.shape.schedule, Kind::TwoBW);
}

TEST(Preference, ADelayIsNotWorthALittleThroughput) {
  const Problem problem = close_problem();
  const SearchResult fastest = search(problem, kByTheModel);
  const SearchResult chosen = preferred(problem, {.tolerance = 0.05, .cushion = false});
  const Plan& plan = chosen.best->plan;
  EXPECT_FALSE(schedule::is_delayed(plan.shape.schedule));
  EXPECT_EQ(plan.stages.size(), 1u);
  EXPECT_GE(plan.sequences_per_s, 0.95 * fastest.best->plan.sequences_per_s);
  EXPECT_LT(plan.sequences_per_s, fastest.best->plan.sequences_per_s);
  // Every candidate still says why it lost, the fastest too.
  ASSERT_EQ(chosen.candidates.size(), fastest.candidates.size());
  EXPECT_EQ(chosen.candidates.front().status, Status::Best);
  EXPECT_EQ(chosen.candidates.front().ratio, 1);
  EXPECT_EQ(chosen.candidates.front().reason, "");
  EXPECT_EQ(chosen.candidates[1].schedule, fastest.candidates[0].schedule);
  EXPECT_EQ(chosen.candidates[1].status, Status::Slower);
  EXPECT_GT(chosen.candidates[1].ratio, 1);
  EXPECT_NE(chosen.candidates[1].reason.find("more throughput, but with delayed updates"), std::string::npos)
      << chosen.candidates[1].reason;
}

// Far behind the fastest a candidate has any good plan, unless the search knows that it may be chosen.
TEST(Preference, AFamilyThatIsToleratedIsChosenWithItsBestPlan) {
  int behind = 0;
  for (int seed = 1; seed <= 600; ++seed) {
    Problem problem = random_problem(
        seed,
        {.most_nodes = 2, .most_devices = 6, .most_kinds = 1, .most_layers = 12, .microbatch_sizes = 2});
    const SearchResult fastest = search(problem, {.simulate = 0, .suggestions = false});
    if (!fastest.best) continue;
    const SearchResult chosen = preferred(problem, {.tolerance = 0.3, .cushion = false, .predict_well = 0});
    if (chosen.best->plan.sequences_per_s < 0.98 * fastest.best->plan.sequences_per_s) ++behind;
    problem.fixed.schedule = chosen.best->plan.shape.schedule;
    problem.fixed.replicas = chosen.best->plan.shape.replicas;
    EXPECT_NEAR(chosen.best->plan.sequences_per_s / search(problem, kByTheModel).best->plan.sequences_per_s,
                1, 1e-8)
        << "problem " << seed;
  }
  EXPECT_GT(behind, 50);
}

TEST(Preference, MuchThroughputIsWorthADelay) {
  Problem problem = close_problem();
  problem.fixed.replicas = 1;
  problem.batch = 4;  // flush idles for nearly half of the time
  EXPECT_EQ(preferred(problem, {.cushion = false}).best->plan.shape.schedule, Kind::TwoBW);
}

TEST(Preference, ACushionIsTakenWhereMemoryAndMicrobatchesAllow) {
  Problem problem = close_problem();
  problem.fixed.replicas = 1;
  problem.fixed.schedule = Kind::TwoBW;
  problem.fixed.stages = 4;
  problem.fixed.predict = false;
  const auto extra = [](const Problem& problem) { return preferred(problem, {}).best->plan.shape.extra; };
  EXPECT_EQ(preferred(problem, {.cushion = false}).best->plan.shape.extra, 0);
  EXPECT_EQ(extra(problem), 3);
  problem.batch = 5;  // 2bw needs m >= d-1+e
  EXPECT_EQ(extra(problem), 0);
  problem.batch = 6;
  EXPECT_EQ(extra(problem), 3);
  problem.fixed.extra = 1;
  EXPECT_EQ(extra(problem), 1);
  problem.fixed.extra.reset();
  const Plan without = preferred(problem, {.cushion = false}).best->plan;
  problem.cluster.kinds[0].memory = 1.001 * without.stages[0].memory.total() / (1 - problem.margin);
  problem.fixed.recompute = false;
  EXPECT_EQ(extra(problem), 0);
}

// With a cushion the first stage has m-6 gradients to predict from, without m-3.
TEST(Preference, ACushionIsNotTakenFromAGoodPrediction) {
  Problem problem = close_problem();
  problem.fixed.replicas = 1;
  problem.fixed.schedule = Kind::TwoBW;
  problem.fixed.stages = 4;
  const auto extra = [](const Problem& problem) { return preferred(problem, {}).best->plan.shape.extra; };
  problem.batch = 12;
  EXPECT_EQ(extra(problem), 3);
  problem.batch = 11;
  EXPECT_EQ(extra(problem), 0);
  problem.fixed.predict = false;
  EXPECT_EQ(extra(problem), 3);
}

// 7 microbatches on 5 devices: 5 stages of at most 5 layers predict from 3, 4 stages of at most 6 from 4.
Problem few_microbatches() {
  Problem problem = uniform_problem(1, 5, 21);
  problem.batch = 7;
  problem.fixed.replicas = 1;
  problem.fixed.schedule = Kind::TwoBW;
  return problem;
}

TEST(Preference, AGoodPredictionIsWorthAFifthOfTheThroughput) {
  const Problem problem = few_microbatches();
  const Plan fastest = search(problem, kByTheModel).best->plan;
  const Plan chosen = preferred(problem, {.cushion = false}).best->plan;
  EXPECT_EQ(fastest.stages.size(), 5u);
  EXPECT_EQ(chosen.stages.size(), 4u);
  EXPECT_NEAR(chosen.tokens_per_s / fastest.tokens_per_s, 5.0 / 6, 1e-9);
  EXPECT_FALSE(schedule::predicts_well({.shape = fastest.shape}));
  EXPECT_TRUE(schedule::predicts_well({.shape = chosen.shape}));
}

TEST(Preference, AGoodPredictionIsNotWorthMoreThanThat) {
  EXPECT_EQ(preferred(few_microbatches(), {.cushion = false, .predict_well = 0.17}).best->plan.stages.size(),
            4u);
  EXPECT_EQ(preferred(few_microbatches(), {.cushion = false, .predict_well = 0.16}).best->plan.stages.size(),
            5u);
}

TEST(Preference, WithoutPredictionNothingIsGivenUpForIt) {
  Problem problem = few_microbatches();
  problem.fixed.predict = false;
  EXPECT_EQ(preferred(problem, {.cushion = false}).best->plan.stages.size(), 5u);
}

TEST(Preference, StagesThatAreFixedPredictAsTheyCan) {
  Problem problem = few_microbatches();
  problem.fixed.stages = 5;
  EXPECT_EQ(preferred(problem, {.cushion = false}).best->plan.stages.size(), 5u);
}

TEST(Preference, TheReportSaysWhereAPredictionIsNotGood) {
  const Problem problem = few_microbatches();
  const auto said = [&](double predict_well) {
    const SearchResult result = preferred(problem, {.cushion = false, .predict_well = predict_well});
    const std::string text = report(problem, result, "gpt", false);
    const std::size_t begin = text.find("\nprediction ") + 1;
    return begin == 0 ? text : text.substr(begin, text.find('\n', begin) - begin);
  };
  EXPECT_EQ(
      said(0.2),
      "prediction     from the first 4, 5, 6, 7 of 7 microbatches of the batch before, for the first 4 of a "
      "batch; the others run on true weights");
  EXPECT_EQ(
      said(0),
      "prediction     from the first 3, 4, 5, 6, 7 of 7 microbatches of the batch before; less than half "
      "on the first stage: expect a higher loss than under flush, and take more microbatches if you can");
}

TEST(Preference, WhereNothingFitsNothingIsPreferred) {
  Problem problem = close_problem();
  problem.cluster.kinds[0].memory = 1;
  EXPECT_FALSE(preferred(problem, {}).best);
}

TEST(Preference, ContendersAreNearTheChosenPlanAndAllDifferent) {
  const Problem problem = close_problem();
  const Preferences preferences{.tolerance = 0.05, .cushion = false};
  SearchOptions options = kByTheModel;
  options.near = 0.3;
  const SearchResult result = search_with(problem, preferences, options);
  const std::vector<Plan> plans = contenders(problem, preferences, result, 0.3, 100);
  ASSERT_GE(plans.size(), 3u);
  EXPECT_EQ(plans.front().sequences_per_s, result.best->plan.sequences_per_s);
  int synchronous_of_one_stage = 0;
  for (const Plan& plan : plans) {
    EXPECT_GE(plan.sequences_per_s, 0.7 * plans.front().sequences_per_s);
    synchronous_of_one_stage += plan.stages.size() == 1 && !schedule::is_delayed(plan.shape.schedule) &&
                                plan.shape.replicas == plans.front().shape.replicas;
  }
  EXPECT_EQ(synchronous_of_one_stage, 1);
  EXPECT_EQ(contenders(problem, preferences, result, 0.3, 2).size(), 2u);
  for (const Plan& plan : contenders(problem, preferences, result, 0, 100))
    EXPECT_GE(plan.sequences_per_s, plans.front().sequences_per_s);
}

// close_problem() with more microbatch sizes: twice the size takes a little less than twice the time.
Problem sized_problem() {
  Problem problem = close_problem();
  problem.fixed.microbatch.reset();
  for (const int size : {2, 4}) {
    CostColumn column = problem.costs[0].columns.back();
    column.microbatch = size;
    column.tokens *= 2;
    for (LayerCost& layer : column.layers) {
      for (double* time : {&layer.forward, &layer.backward}) *time *= 1.95;
      for (double* bytes : {&layer.saved_bytes, &layer.output, &layer.working}) *bytes *= 2;
    }
    problem.costs[0].columns.push_back(column);
  }
  return problem;
}

// Measured times are never exact: which size of a microbatch is best is tried as well.
TEST(Preference, ContendersHaveOtherMicrobatchesAfterTheBestOfEveryFamily) {
  Problem problem = sized_problem();
  problem.fixed.schedule = Kind::TwoBW;
  const Preferences preferences{.tolerance = 0, .cushion = false};
  const SearchResult result = preferred(problem, preferences);
  const std::vector<Plan> plans = contenders(problem, preferences, result, 0.5, 100);
  std::map<int, std::vector<Plan>> candidates;  // by number of replicas
  std::size_t rank = 0;
  for (const Plan& plan : plans) {
    std::vector<Plan>& candidate = candidates[plan.shape.replicas];
    for (const Plan& other : candidate) {
      EXPECT_NE(other.shape.microbatch, plan.shape.microbatch);
      EXPECT_GE(other.sequences_per_s, plan.sequences_per_s);
    }
    candidate.push_back(plan);
    EXPECT_GE(candidate.size(), rank);  // who is second comes after all who are first
    rank = candidate.size();
  }
  EXPECT_EQ(rank, 3u);
  EXPECT_GE(candidates.size(), 3u);
}

// No plan has a microbatch larger than the batch.
TEST(Preference, ContendersFitTheBatch) {
  Problem problem = sized_problem();
  problem.batch = 3;
  const SearchResult result = preferred(problem, {});
  for (const Plan& plan : contenders(problem, {}, result, 0.9, 100))
    EXPECT_LE(plan.shape.microbatch * plan.shape.microbatches * plan.shape.replicas, 3);
}

Plan plan_of(Kind schedule, int stages) {
  return {.shape = {.schedule = schedule, .microbatch = 1, .microbatches = 1},
          .stages = std::vector<StagePlan>(static_cast<std::size_t>(stages))};
}

TEST(Preference, ByRatesTheFastestIsTakenUnlessASimplerOneIsAsGoodAsThat) {
  const std::vector<Plan> plans = {plan_of(Kind::TwoBW, 2), plan_of(Kind::TwoBW, 1), plan_of(Kind::Flush, 4),
                                   plan_of(Kind::Flush, 2)};
  const Preferences preferences{.tolerance = 0.02};
  EXPECT_EQ(prefer_by_rates(preferences, plans, {100, 90, 90, 90}), 0u);
  EXPECT_EQ(prefer_by_rates(preferences, plans, {100, 99, 90, 90}), 1u);
  EXPECT_EQ(prefer_by_rates(preferences, plans, {100, 99, 98.5, 97}), 2u);
  EXPECT_EQ(prefer_by_rates(preferences, plans, {100, 99, 98.5, 98.1}), 3u);
  EXPECT_EQ(prefer_by_rates(preferences, {plans[0], plans[0]}, {99, 100}), 1u);
}

TEST(Preference, ASynchronousStartCostsWhatFlushDoes) {
  Problem problem = close_problem();
  problem.fixed.replicas = 1;
  problem.fixed.stages = 4;
  problem.fixed.schedule = Kind::TwoBW;
  const Plan delayed = preferred(problem, {.cushion = false}).best->plan;
  Plan flush = delayed;
  flush.shape.schedule = Kind::Flush;
  const double slower = evaluate(problem, flush).plan.tokens_per_s / delayed.tokens_per_s;
  ASSERT_LT(slower, 0.99);
  EXPECT_EQ(with_synchronous_start(problem, delayed, 100, 0), 100);
  EXPECT_NEAR(with_synchronous_start(problem, delayed, 100, 1), 100 * slower, 1e-9);
  EXPECT_NEAR(with_synchronous_start(problem, delayed, 100, 0.5), 100 * 2 / (1 + 1 / slower), 1e-9);
  EXPECT_EQ(with_synchronous_start(problem, flush, 100, 1), 100);
}

}  // namespace
}  // namespace twobw::planner
