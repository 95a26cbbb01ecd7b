#include "app/measure/trials.h"

#include <gtest/gtest.h>

#include <vector>

namespace twobw::measure {
namespace {

using Rates = std::vector<std::vector<double>>;

// Turns as they were told, one after the other for each run.
class Told {
 public:
  explicit Told(Rates rates, double seconds = 1)
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
  Told runs(Rates{{100}, {90}}, /*seconds=*/50);
  const auto results = runs.take(/*seconds=*/1);
  EXPECT_EQ(runs.order(), (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(results[0].turns, 1);
  EXPECT_FALSE(results[1].left_out);
}

TEST(Turns, RoundsFollowAsLongAsTheyFit) {
  Told runs(Rates{{100, 90}, {95, 105}});
  const auto results = runs.take(/*seconds=*/7);
  EXPECT_EQ(runs.order(), (std::vector<std::size_t>{0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(results[1].turns, 3);
}

TEST(Turns, ThereIsAnEndToRounds) {
  Told runs(Rates{{100, 50}, {50, 100}});
  EXPECT_EQ(runs.take(/*seconds=*/1e9)[0].turns, kMostRounds);
}

TEST(Turns, TheRateIsThatOfTheTimeAltogether) {
  Told runs(Rates{{100, 50}, {90, 60}});
  const auto results = runs.take(/*seconds=*/4);
  EXPECT_NEAR(results[0].tokens_per_s, 2 / (1 / 100.0 + 1 / 50.0), 1e-9);
  EXPECT_NEAR(results[1].tokens_per_s, 2 / (1 / 90.0 + 1 / 60.0), 1e-9);
}

// Turns that agree tell runs apart that are 2% apart, as soon as there are two.
TEST(Turns, WhatIsSlowerEveryTimeIsLeftOut) {
  Told runs(Rates{{100, 101}, {70, 70.2}, {96, 95.9}, {99.5, 100.3}});
  const auto results = runs.take(/*seconds=*/1e9);
  EXPECT_EQ(results[1].turns, 2);
  EXPECT_EQ(results[2].turns, 2);
  EXPECT_TRUE(results[1].left_out && results[2].left_out);
  EXPECT_EQ(results[0].turns, results[3].turns);
  EXPECT_GT(results[0].turns, 2);
  EXPECT_FALSE(results[0].left_out || results[3].left_out);
}

// One turn tells nothing, however far they are apart.
TEST(Turns, NobodyIsLeftOutAfterOneTurn) {
  Told runs(Rates{{150, 90, 100}, {75, 140, 150}});
  const auto results = runs.take(/*seconds=*/6);
  EXPECT_EQ(results[0].turns, 3);
  EXPECT_EQ(results[1].turns, 3);
}

// Two turns that happen to agree are little to go by.
TEST(Turns, FewTurnsAreNotTrusted) {
  Told runs(Rates{{100, 104, 92, 90, 91}, {93, 96, 99, 101, 100}});
  const auto results = runs.take(/*seconds=*/10);
  EXPECT_FALSE(results[0].left_out || results[1].left_out);
  EXPECT_EQ(results[1].turns, 5);
}

// Nothing is gained by going on when all who are left may be taken.
TEST(Turns, ItEndsWhenThoseLeftAreKnownToBeWithinTheTolerance) {
  Told runs(Rates{{100, 100.1}, {99.7, 99.8}});
  EXPECT_EQ(runs.take(/*seconds=*/1e9)[0].turns, 2);
}

// The more turns differ, the longer a run stays that is behind so far.
TEST(Turns, ChanceDoesNotDecide) {
  Told runs(Rates{{120, 90, 100, 100}, {95, 115, 125, 125}});
  const auto results = runs.take(/*seconds=*/8);
  EXPECT_FALSE(results[0].left_out || results[1].left_out);
  EXPECT_GT(results[1].tokens_per_s, results[0].tokens_per_s);
}

// It may be preferred for other reasons than its rate.
TEST(Turns, WhoIsWithinTheToleranceStays) {
  Told runs(Rates{{100}, {99.2}, {98.8}});
  const auto results = runs.take(/*seconds=*/9);
  EXPECT_FALSE(results[1].left_out);
  EXPECT_TRUE(results[2].left_out);
}

TEST(Turns, OneThatIsLeftEndsIt) {
  Told runs(Rates{{100}, {50}, {60}});
  EXPECT_EQ(runs.take(/*seconds=*/1e9)[0].turns, 2);
}

}  // namespace
}  // namespace twobw::measure
