#include "app/train/guard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace twobw::train {
namespace {

PipelineConfig pipeline(int m = 4, int e = 0) {
  PipelineConfig config;
  config.schedule = ScheduleKind::TwoBW;
  config.stages = 4;
  config.microbatches = m;
  config.extra = e;
  return config;
}

struct Course {
  std::vector<std::string> said;
  std::vector<std::int64_t> synchronous;  // batches
};

// What it makes of losses, and of predictions that miss by `error`, update after update.
Course course(Guard guard, int updates, double (*loss)(int), double error = 0) {
  Course all;
  for (int t = 0; t < updates; ++t) {
    const auto measured = error > 0 && t % 20 == 19 ? std::optional(error) : std::nullopt;
    const Guard::Verdict verdict = guard.add(t, loss(t), measured);
    if (!verdict.said.empty()) all.said.push_back(verdict.said);
    if (verdict.synchronous) all.synchronous.push_back(t + Guard::kAhead);
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
  EXPECT_TRUE(course(Guard(pipeline()), 2000, falls).said.empty());
  EXPECT_TRUE(course(Guard(pipeline()), 2000, falls, 0.8).said.empty());
}

TEST(Guard, WarnsOnceOfPredictionsThatMissByMoreThanTheyMove) {
  const auto warnings = course(Guard(pipeline()), 2000, falls, 1.2).said;
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0],
            "warning: at update 60 predicted weights miss the true ones by 1.20 times the step that they "
            "predict, 3 "
            "times in a row, so they are no better than none; take more microbatches an update "
            "(pipeline.microbatches is 4; from 7 on some run on true weights), a lower optimizer.lr, or "
            "pipeline.schedule: flush");
}

TEST(Guard, OneMissIsNoReason) {
  Guard guard(pipeline());
  for (int t = 0; t < 1000; ++t) EXPECT_EQ(guard.add(t, 2, t % 3 < 2 ? 1.5 : 0.5).said, "") << t;
}

TEST(Guard, WarnsOnceOfALossThatClimbs) {
  const auto warnings = course(Guard(pipeline(8, 1)), 2000, climbs).said;
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("the loss has climbed to "), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[0].find(
                "(pipeline.microbatches is 8; from 9 on some run on true weights), fewer extra ones in "
                "flight (pipeline.extra is 1), a lower optimizer.lr, or pipeline.schedule: flush"),
            std::string::npos)
      << warnings[0];
}

TEST(Guard, OfThePaperItSaysToPredict) {
  PipelineConfig paper = pipeline();
  paper.predict = false;
  const auto warnings = course(Guard(paper), 2000, climbs).said;
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("set pipeline.predict: true"), std::string::npos) << warnings[0];
}

TEST(Guard, FlushIsNotItsBusiness) {
  PipelineConfig flush = pipeline();
  flush.schedule = ScheduleKind::Flush;
  EXPECT_TRUE(course(Guard(flush), 2000, climbs).said.empty());
}

TEST(Guard, FallsBackForAWhileAndJudgesAnew) {
  PipelineConfig config = pipeline();
  config.guard = "fallback";
  config.guard_updates = 5;
  // Predictions are of no use, and are looked at after updates 20, 40 and 60, then 80, 100 and 120.
  const Course found = course(Guard(config), 125, falls, 1.2);
  EXPECT_EQ(found.synchronous, (std::vector<std::int64_t>{67, 68, 69, 70, 71, 127, 128, 129, 130, 131}));
  ASSERT_EQ(found.said.size(), 4u);
  EXPECT_NE(found.said[0].find("than none: batches 68 to 72 run under flush"), std::string::npos)
      << found.said[0];
  EXPECT_EQ(found.said[1], "batch 73 and those after it run under 2bw again");
}

TEST(Guard, OffSaysNothing) {
  PipelineConfig config = pipeline();
  config.guard = "off";
  EXPECT_TRUE(course(Guard(config), 2000, climbs, 1.5).said.empty());
}

}  // namespace
}  // namespace twobw::train
