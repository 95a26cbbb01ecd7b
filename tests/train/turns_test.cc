#include "train/turns.h"

#include <gtest/gtest.h>

#include <vector>

namespace twobw::train {
namespace {

using Rates = std::vector<std::vector<double>>;

// Turns as they were told, one after the other for each run.
class Told {
 public:
  explicit Told(Rates rates, double seconds = 1)
      : rates_(std::move(rates)), seconds_(seconds), turns_(rates_.size()) {}

  std::vector<Standing> take(double seconds) {
    return take_turns(rates_.size(), seconds, [this](std::size_t run) {
      order_.push_back(run);
      const std::vector<double>& rates = rates_[run];
      return Turn{rates[turns_[run]++ % rates.size()], seconds_};
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
  const auto standings = runs.take(/*seconds=*/1);
  EXPECT_EQ(runs.order(), (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(standings[0].turns, 1);
  EXPECT_FALSE(standings[1].left_out);
}

TEST(Turns, RoundsFollowAsLongAsTheyFit) {
  Told runs(Rates{{100}, {99}});
  const auto standings = runs.take(/*seconds=*/7);
  EXPECT_EQ(runs.order(), (std::vector<std::size_t>{0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(standings[1].turns, 3);
}

TEST(Turns, ThereIsAnEndToRounds) {
  Told runs(Rates{{100}, {99}});
  EXPECT_EQ(runs.take(/*seconds=*/1e9)[0].turns, kMostRounds);
}

TEST(Turns, TheRateIsThatOfTheTimeAltogether) {
  Told runs(Rates{{100, 50}, {90, 60}});
  const auto standings = runs.take(/*seconds=*/4);
  EXPECT_NEAR(standings[0].tokens_per_s, 2 / (1 / 100.0 + 1 / 50.0), 1e-9);
  EXPECT_NEAR(standings[1].tokens_per_s, 2 / (1 / 90.0 + 1 / 60.0), 1e-9);
}

// 80 is out at once, 88 when two rounds have said so, 92 after four, and that leaves one.
TEST(Turns, WhatIsTooSlowToBeTheFastestIsLeftOut) {
  Told runs(Rates{{100}, {80}, {88}, {92}});
  const auto standings = runs.take(/*seconds=*/1e9);
  EXPECT_EQ(standings[0].turns, 4);
  EXPECT_FALSE(standings[0].left_out);
  EXPECT_EQ(standings[1].turns, 1);
  EXPECT_EQ(standings[2].turns, 2);
  EXPECT_EQ(standings[3].turns, 4);
  for (int run = 1; run < 4; ++run) EXPECT_TRUE(standings[run].left_out) << run;
}

// A run that had one lucky turn is not left in by it, nor one that had an unlucky one left out.
TEST(Turns, ChanceDoesNotDecide) {
  Told runs(Rates{{100, 100, 100, 100}, {105, 90, 90, 90}, {92, 110, 110, 110}});
  const auto standings = runs.take(/*seconds=*/12);
  EXPECT_TRUE(standings[1].left_out || standings[1].tokens_per_s < standings[2].tokens_per_s);
  EXPECT_FALSE(standings[2].left_out);
}

}  // namespace
}  // namespace twobw::train
