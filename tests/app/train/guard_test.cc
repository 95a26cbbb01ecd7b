#include "app/train/guard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace twobw::train {
namespace {

Config config(int m = 4, int e = 0) {
  Config config;
  config.run_dir = "runs/a";
  config.pipeline.schedule = ScheduleKind::TwoBW;
  config.pipeline.stages = 4;
  config.pipeline.microbatches = m;
  config.pipeline.extra = e;
  return config;
}

// The warnings of a run with these losses, and with predictions that miss by `error`.
std::vector<std::string> warnings(const Config& config, int updates, double (*loss)(int), double error = 0) {
  Guard guard(config);
  std::vector<std::string> all;
  for (int t = 0; t < updates; ++t) {
    const auto measured = error > 0 && t % 20 == 19 ? std::optional(error) : std::nullopt;
    if (const std::string warning = guard.add(t, loss(t), measured); !warning.empty()) all.push_back(warning);
  }
  return all;
}

double falls(int t) {
  return 1 + 4 * std::exp(-t / 100.0);
}

double climbs(int t) {
  return t < 300 ? falls(t) : falls(300) + 0.01 * (t - 300);
}

TEST(Guard, ARunThatLearnsGetsNoWarning) {
  EXPECT_TRUE(warnings(config(), 2000, falls).empty());
  EXPECT_TRUE(warnings(config(), 2000, falls, 0.8).empty());
}

TEST(Guard, UselessPredictionsAreWarnedOfOnceWithTheRemedy) {
  const auto found = warnings(config(), 2000, falls, 1.2);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(
      found[0],
      "warning: at update 60 predicted weights miss the true ones by 1.20 times the step that they "
      "predict, 3 times in a row, so prediction does not help; for a synchronous stretch interrupt "
      "the run, which saves a checkpoint, and continue with resume=runs/a pipeline.sync_updates=160 "
      "(counted from update 0), or with pipeline.schedule=flush; to stay with 2bw take more microbatches "
      "an update (pipeline.microbatches is 4; from 7 on some run on true weights), or a lower "
      "optimizer.lr");
}

TEST(Guard, OneMissIsNoReason) {
  Guard guard(config());
  for (int t = 0; t < 1000; ++t) EXPECT_EQ(guard.add(t, 2, t % 3 < 2 ? 1.5 : 0.5), "") << t;
}

TEST(Guard, ALossThatClimbsIsWarnedOfOnce) {
  const auto found = warnings(config(8, 1), 2000, climbs);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found[0].find("the loss has climbed to "), std::string::npos) << found[0];
  EXPECT_NE(
      found[0].find("(pipeline.microbatches is 8; from 9 on some run on true weights), fewer extra ones "
                    "in flight (pipeline.extra is 1), or a lower optimizer.lr"),
      std::string::npos)
      << found[0];
}

// From the first checkpoint after the warning on, the remedy still has its full length.
TEST(Guard, TheRemedyReachesBeyondTheNextCheckpoint) {
  Config saving = config();
  saving.checkpoint.every_updates = 500;
  const auto found = warnings(saving, 2000, falls, 1.2);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found[0].find("pipeline.sync_updates=660 "), std::string::npos) << found[0];
}

// As a run that is resumed with the remedy.
TEST(Guard, SynchronousUpdatesAreNotJudged) {
  Config calmed = config();
  calmed.pipeline.sync_updates = 160;
  const auto found = warnings(calmed, 2000, falls, 1.2);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].find("warning: at update 220 "), 0u) << found[0];
}

TEST(Guard, UnderThePapersRuleTheRemedyIsToPredict) {
  Config paper = config();
  paper.pipeline.predict = false;
  const auto found = warnings(paper, 2000, climbs);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found[0].find("set pipeline.predict=true"), std::string::npos) << found[0];
}

TEST(Guard, FlushIsNotJudged) {
  Config flush = config();
  flush.pipeline.schedule = ScheduleKind::Flush;
  EXPECT_TRUE(warnings(flush, 2000, climbs).empty());
}

TEST(Guard, OffWarnsOfNothing) {
  Config off = config();
  off.pipeline.guard = "off";
  EXPECT_TRUE(warnings(off, 2000, climbs, 1.5).empty());
}

}  // namespace
}  // namespace twobw::train
