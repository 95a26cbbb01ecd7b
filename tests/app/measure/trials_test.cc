#include "app/measure/trials.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "core/schedule/spec.h"
#include "engine/device/device.h"
#include "engine/runtime/setup.h"

namespace twobw::measure {
namespace {

using Rates = std::vector<std::vector<double>>;

// Turns with given rates, in order for each run.
class Scripted {
 public:
  explicit Scripted(Rates rates, double seconds = 1)
      : rates_(std::move(rates)), seconds_(seconds), turns_(rates_.size()) {}

  std::vector<TrialResult> take(double seconds) {
    return interleave_trials(rates_.size(), {.seconds = seconds, .tolerance = 0.01}, [this](std::size_t run) {
      order_.push_back(run);
      const std::vector<double>& rates = rates_[run];
      return Trial{rates[turns_[run]++ % rates.size()], seconds_};
    });
  }
  const std::vector<std::size_t>& order() const { return order_; }

 private:
  Rates rates_;
  double seconds_;
  std::vector<std::size_t> turns_;
  std::vector<std::size_t> order_;
};

TEST(Turns, OneRoundIsMadeWhateverItTakes) {
  Scripted runs(Rates{{100}, {90}}, /*seconds=*/50);
  const auto results = runs.take(/*seconds=*/1);
  EXPECT_EQ(runs.order(), (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(results[0].turns, 1);
  EXPECT_FALSE(results[1].left_out);
}

TEST(Turns, ThereIsAnEndToRounds) {
  Scripted runs(Rates{{100, 50}, {50, 100}});
  EXPECT_EQ(runs.take(/*seconds=*/1e9)[0].turns, kMostRounds);
}

TEST(Turns, TheRateIsThatOfTheTimeAltogether) {
  Scripted runs(Rates{{100, 50}, {90, 60}});
  const auto results = runs.take(/*seconds=*/4);
  EXPECT_NEAR(results[0].tokens_per_s, 2 / (1 / 100.0 + 1 / 50.0), 1e-9);
  EXPECT_NEAR(results[1].tokens_per_s, 2 / (1 / 90.0 + 1 / 60.0), 1e-9);
}

// Two turns that agree suffice to separate runs that differ by 2%.
TEST(Turns, WhatIsSlowerEveryTimeIsLeftOut) {
  Scripted runs(Rates{{100, 101}, {70, 70.2}, {96, 95.9}, {99.5, 100.3}});
  const auto results = runs.take(/*seconds=*/1e9);
  EXPECT_EQ(results[1].turns, 2);
  EXPECT_EQ(results[2].turns, 2);
  EXPECT_TRUE(results[1].left_out && results[2].left_out);
  EXPECT_EQ(results[0].turns, results[3].turns);
  EXPECT_GT(results[0].turns, 2);
  EXPECT_FALSE(results[0].left_out || results[3].left_out);
}

// One turn proves nothing, however large the difference.
TEST(Turns, NobodyIsLeftOutAfterOneTurn) {
  Scripted runs(Rates{{150, 90, 100}, {75, 140, 150}});
  const auto results = runs.take(/*seconds=*/6);
  EXPECT_EQ(results[0].turns, 3);
  EXPECT_EQ(results[1].turns, 3);
}

// Two turns that happen to agree are little to go by.
TEST(Turns, FewTurnsAreNotTrusted) {
  Scripted runs(Rates{{100, 104, 92, 90, 91}, {93, 96, 99, 101, 100}});
  const auto results = runs.take(/*seconds=*/10);
  EXPECT_FALSE(results[0].left_out || results[1].left_out);
  EXPECT_EQ(results[1].turns, 5);
}

// More rounds gain nothing if any remaining run may be chosen.
TEST(Turns, ItEndsWhenThoseLeftAreKnownToBeWithinTheTolerance) {
  Scripted runs(Rates{{100, 100.1}, {99.7, 99.8}});
  EXPECT_EQ(runs.take(/*seconds=*/1e9)[0].turns, 2);
}

// The more turns differ, the longer a run stays that is behind so far.
TEST(Turns, ChanceDoesNotDecide) {
  Scripted runs(Rates{{120, 90, 100, 100}, {95, 115, 125, 125}});
  const auto results = runs.take(/*seconds=*/8);
  EXPECT_FALSE(results[0].left_out || results[1].left_out);
  EXPECT_GT(results[1].tokens_per_s, results[0].tokens_per_s);
}

// It may be preferred for other reasons than its rate.
TEST(Turns, WhoIsWithinTheToleranceStays) {
  Scripted runs(Rates{{100}, {99.2}, {98.8}});
  const auto results = runs.take(/*seconds=*/9);
  EXPECT_FALSE(results[1].left_out);
  EXPECT_TRUE(results[2].left_out);
}

TEST(Turns, OneThatIsLeftEndsIt) {
  Scripted runs(Rates{{100}, {50}, {60}});
  EXPECT_EQ(runs.take(/*seconds=*/1e9)[0].turns, 2);
}

// A run that would be long, starts synchronously and evaluates all the time.
Config tiny(const std::vector<std::string>& more = {}) {
  device::initialize();
  std::vector<std::string> settings = {
      "model.layers=1",          "model.width=16",         "model.heads=2",      "model.vocab=32",
      "model.context=8",         "pipeline.microbatch=1",  "pipeline.stages=1",  "devices=[cpu:0]",
      "pipeline.microbatches=2", "pipeline.schedule=2bw",  "train.updates=1000", "train.eval_every=1",
      "optimizer.warmup=0",      "pipeline.sync_updates=9"};
  settings.insert(settings.end(), more.begin(), more.end());
  return load_config("", settings);
}

const std::vector<std::string> kTwoStages = {"pipeline.stages=2", "pipeline.split=[3,4]",
                                             "devices=[cpu:0,cpu:0]"};

TEST(TrialRun, IsTheRunButForItsLengthItsStartAndItsEvaluations) {
  const Config config = tiny(kTwoStages);
  Config brief = trial_config(config);
  EXPECT_EQ(brief.train.updates, trial_updates(config));
  EXPECT_EQ(brief.train.eval_every, 0);
  EXPECT_EQ(brief.pipeline.sync_updates, 0);
  brief.train.updates = config.train.updates;
  brief.train.eval_every = config.train.eval_every;
  brief.pipeline.sync_updates = config.pipeline.sync_updates;
  EXPECT_EQ(to_yaml(brief), to_yaml(config));
}

// Every update of a trial, 10 s after the one before.
std::map<std::int64_t, double> even_ends(const Config& config) {
  std::map<std::int64_t, double> ends;
  for (int update = 0; update < trial_updates(config); ++update) ends[update] = 3 + 10 * update;
  return ends;
}

// The updates whose ends the rate depends on.
std::vector<std::int64_t> timed_updates(const Config& config) {
  const auto even = even_ends(config);
  std::vector<std::int64_t> timed;
  for (const auto& [update, end] : even) {
    auto ends = even;
    ends[update] += 1;
    if (trial_rate(config, ends) != trial_rate(config, even)) timed.push_back(update);
  }
  return timed;
}

TEST(TrialRun, HasTheRateOfTheSteadyState) {
  for (const ScheduleKind schedule : all_kinds()) {
    Config config = tiny({"pipeline.stages=2", "devices=[cpu:0,cpu:0]"});
    config.pipeline.schedule = schedule;
    EXPECT_DOUBLE_EQ(trial_rate(config, even_ends(config)), 2 * 8 / 10.0);  // two sequences an update
    const auto steady = schedule::steady_state(runtime::spec_of(trial_config(config)), trial_updates(config));
    ASSERT_TRUE(steady);
    EXPECT_EQ(timed_updates(config), (std::vector<std::int64_t>{steady->first, steady->last}));
  }
}

// There the first updates capture graphs.
TEST(TrialRun, BeginsToTimeLaterOnAGpu) {
  const Config config = tiny({"devices=[cuda:0]"});
  const auto steady = schedule::steady_state(runtime::spec_of(trial_config(config)), trial_updates(config));
  ASSERT_TRUE(steady);
  EXPECT_EQ(timed_updates(config), (std::vector<std::int64_t>{steady->first + 1, steady->last}));
  EXPECT_GT(trial_updates(config), trial_updates(tiny()));
}

TEST(TrialRun, CountsTheTokensOfAllReplicas) {
  const Config config = tiny({"pipeline.replicas=3", "devices=[cpu:0,cpu:0,cpu:0]"});
  EXPECT_DOUBLE_EQ(trial_rate(config, even_ends(config)), 3 * 2 * 8 / 10.0);
}

// Its seconds are those it cost, so they hold the ones it timed.
TEST(TrialRun, TakesLongerThanWhatItTimes) {
  const Config config = tiny();
  const auto timed = timed_updates(config);
  const Trial trial = try_run(config);
  const double tokens = static_cast<double>(timed.back() - timed.front()) * 2 * 8;
  EXPECT_GE(trial.seconds, tokens / trial.tokens_per_s);
}

}  // namespace
}  // namespace twobw::measure
