#include "train/guard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace twobw::train {
namespace {

PipelineShape shape(int m = 4, int e = 0) {
  return {.schedule = ScheduleKind::TwoBW, .stages = 4, .microbatches = m, .extra = e};
}

// What it says of losses, update after update.
std::vector<std::string> said(Guard guard, int updates, double (*loss)(int), double error = 0) {
  std::vector<std::string> all;
  for (int t = 0; t < updates; ++t) {
    const auto measured = error > 0 && t % 20 == 19 ? std::optional(error) : std::nullopt;
    if (const auto warning = guard.add(t, loss(t), measured)) all.push_back(*warning);
  }
  return all;
}

double falls(int t) {
  return 1 + 4 * std::exp(-t / 100.0);
}

double climbs(int t) {
  return t < 300 ? falls(t) : falls(300) + 0.01 * (t - 300);
}

TEST(Guard, SaysNothingOfARunThatLearns) {
  EXPECT_TRUE(said(Guard(shape()), 2000, falls).empty());
  EXPECT_TRUE(said(Guard(shape()), 2000, falls, 0.8).empty());
}

TEST(Guard, WarnsOnceOfPredictionsThatMissByMoreThanTheyMove) {
  const auto warnings = said(Guard(shape()), 2000, falls, 1.2);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0],
            "warning: at update 60 predicted weights miss the true ones by 1.20 times the step that they "
            "predict, 3 "
            "times in a row, so they are no better than none; take more microbatches an update "
            "(pipeline.microbatches is 4; from 7 on some run on true weights), or pipeline.schedule: flush");
}

TEST(Guard, OneMissIsNoReason) {
  Guard guard(shape());
  for (int t = 0; t < 1000; ++t) EXPECT_FALSE(guard.add(t, 2, t % 3 < 2 ? 1.5 : 0.5)) << t;
}

TEST(Guard, WarnsOnceOfALossThatClimbs) {
  const auto warnings = said(Guard(shape(8, 1)), 2000, climbs);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("the loss has climbed to "), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[0].find(
                "(pipeline.microbatches is 8; from 9 on some run on true weights), fewer extra ones in "
                "flight (pipeline.extra is 1), or pipeline.schedule: flush; else lower optimizer.lr"),
            std::string::npos)
      << warnings[0];
}

TEST(Guard, OfThePaperItSaysToPredict) {
  PipelineShape paper = shape();
  paper.predict = false;
  const auto warnings = said(Guard(paper), 2000, climbs);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("set pipeline.predict: true"), std::string::npos) << warnings[0];
}

TEST(Guard, FlushIsNotItsBusiness) {
  EXPECT_TRUE(said(Guard({.schedule = ScheduleKind::Flush}), 2000, climbs).empty());
}

}  // namespace
}  // namespace twobw::train
