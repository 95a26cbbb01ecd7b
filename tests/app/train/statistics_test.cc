// The figures of a run from made-up reports.
#include "app/train/statistics.h"

#include <gtest/gtest.h>

#include "tests/app/train/saved_config.h"

namespace twobw::train {
namespace {

constexpr double kTokens = 4 * 1 * 8;  // of an update: microbatches x sequences x context

// Nine updates on two stages; evaluations after every third.
class RunFigures : public testing::Test {
 protected:
  // The next update: seconds of training, and pauses of the first stage.
  void add(double training, double evaluating = 0, double saving = 0) {
    time_ += training + evaluating + saving;
    CompleteUpdate update{.update = next_++};
    update.stages.push_back({.stage = 0,
                             .time = time_,
                             .waiting = training / 4,
                             .elapsed = training,
                             .evaluating = evaluating,
                             .saving = saving});
    update.stages.push_back({.stage = 1, .time = time_ + 0.5, .waiting = training / 4, .elapsed = training});
    statistics_.add(update);
  }

  runtime::Setup setup_ = runtime::prepare(saved_config("unused"));
  Statistics statistics_{setup_};
  double time_ = 0;  // of the process
  std::int64_t next_ = 0;
};

TEST_F(RunFigures, RatesLeaveOutEvaluationsAndCheckpoints) {
  for (int update = 0; update < 9; ++update) {
    add(/*training=*/2, /*evaluating=*/update == 3 ? 100 : 0, /*saving=*/update == 4 ? 5 : 0);
    EXPECT_DOUBLE_EQ(statistics_.tokens_per_s(), kTokens / 2) << update;
    const auto line = statistics_.metrics_line();
    EXPECT_DOUBLE_EQ(line["tokens_per_s"].get<double>(), kTokens / 2);
    EXPECT_DOUBLE_EQ(line["paused_s"].get<double>(), update == 3 ? 100 : update == 4 ? 5 : 0);
    EXPECT_DOUBLE_EQ(line["time"].get<double>(), time_);
    EXPECT_DOUBLE_EQ(line["stages"][0]["utilisation"].get<double>(), 0.75);
  }
  const auto summary = statistics_.summary();
  EXPECT_DOUBLE_EQ(summary["tokens_per_s"].get<double>(), kTokens / 2);
  EXPECT_DOUBLE_EQ(summary["utilisation"].get<double>(), 0.75);
  EXPECT_DOUBLE_EQ(summary["seconds"].get<double>(), 9 * 2 + 100 + 5);
}

TEST_F(RunFigures, OneUpdateHasARateToo) {
  add(/*training=*/2, /*evaluating=*/100);
  EXPECT_DOUBLE_EQ(statistics_.summary()["tokens_per_s"].get<double>(), kTokens / 2);
}

TEST_F(RunFigures, TimeLeftIsThatOfUpdatesAndEvaluations) {
  add(6);  // the start is slow
  EXPECT_DOUBLE_EQ(statistics_.seconds_left(), 8 * 6);
  add(2);
  EXPECT_DOUBLE_EQ(statistics_.seconds_left(), 7 * 2);
  add(2);
  EXPECT_DOUBLE_EQ(statistics_.seconds_left(), 6 * 2);  // no evaluation is measured
  add(2, /*evaluating=*/30, /*saving=*/5);
  EXPECT_DOUBLE_EQ(statistics_.seconds_left(), 5 * 2 + 2 * 30);
  add(2);
  add(2);
  EXPECT_DOUBLE_EQ(statistics_.seconds_left(), 3 * 2 + 2 * 30);  // one of them follows
  add(2, /*evaluating=*/40);
  EXPECT_DOUBLE_EQ(statistics_.seconds_left(), 2 * 2 + 40);
  add(2);
  add(2);
  EXPECT_DOUBLE_EQ(statistics_.seconds_left(), 40);
}

// The rate before the checkpoint does not count; the restored weights are evaluated again.
TEST_F(RunFigures, AResumedRunCountsItsOwnTime) {
  setup_.spec.first_batch = next_ = 6;
  statistics_.continue_from({.seconds = 1000});
  add(/*training=*/2, /*evaluating=*/30);
  EXPECT_DOUBLE_EQ(statistics_.tokens_per_s(), kTokens / 2);
  EXPECT_DOUBLE_EQ(statistics_.seconds_left(), 2 * 2 + 30);
  const auto summary = statistics_.summary();
  EXPECT_DOUBLE_EQ(summary["tokens_per_s"].get<double>(), kTokens / 2);
  EXPECT_DOUBLE_EQ(summary["seconds"].get<double>(), 1000 + 32);
}

}  // namespace
}  // namespace twobw::train
