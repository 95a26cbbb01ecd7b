#include "app/train/statistics.h"

#include <gtest/gtest.h>

#include <thread>

namespace twobw::train {
namespace {

telemetry::StageUpdate report(int stage, std::int64_t update, double time) {
  telemetry::StageUpdate result{.stage = stage, .update = update, .time = time, .gradient_norm = 2.0};
  if (stage == 1) result.loss = 3.0;
  return result;
}

TEST(Collector, AnUpdateIsCompleteWhenEveryStageHasReported) {
  Collector collector(2);
  const runtime::Observer observer = collector.observer();
  observer.on_update(report(1, 0, 4.0));
  EXPECT_FALSE(collector.next(0.0));
  observer.on_update(report(0, 0, 5.0));
  const auto complete = collector.next(0.0);
  ASSERT_TRUE(complete);
  const auto& update = std::get<CompleteUpdate>(*complete);
  EXPECT_EQ(update.update, 0);
  EXPECT_EQ(update.time, 5.0);
  EXPECT_EQ(update.loss, 3.0);
  ASSERT_EQ(update.stages.size(), 2u);
  EXPECT_EQ(update.stages[0].stage, 0);
}

// The last stage of every replica reports its part of the loss.
TEST(Collector, PutsReplicasOneAfterAnother) {
  Collector collector(4);
  const runtime::Observer observer = collector.observer();
  for (int replica : {1, 0}) {
    for (int stage : {1, 0}) {
      telemetry::StageUpdate update{.replica = replica, .stage = stage};
      if (stage == 1) update.loss = replica == 0 ? 2.0 : 0.5;
      EXPECT_FALSE(collector.next(0.0));
      observer.on_update(update);
    }
  }
  const auto complete = collector.next(0.0);
  ASSERT_TRUE(complete);
  const auto& update = std::get<CompleteUpdate>(*complete);
  EXPECT_EQ(update.loss, 2.5);
  ASSERT_EQ(update.stages.size(), 4u);
  for (int worker = 0; worker < 4; ++worker) {
    EXPECT_EQ(update.stages[worker].replica, worker / 2);
    EXPECT_EQ(update.stages[worker].stage, worker % 2);
  }
}

// The replica that evaluates may be ahead of the others.
TEST(Collector, AnEvaluationComesAfterItsUpdate) {
  Collector collector(2);
  const runtime::Observer observer = collector.observer();
  observer.on_update({.replica = 0, .update = 4});
  observer.on_evaluation({.update = 4, .loss = 1.5});
  EXPECT_FALSE(collector.next(0.0));
  observer.on_update({.replica = 1, .update = 4});
  EXPECT_TRUE(std::holds_alternative<CompleteUpdate>(*collector.next(0.0)));
  EXPECT_TRUE(std::holds_alternative<telemetry::Evaluation>(*collector.next(0.0)));
}

TEST(Collector, EndsWhenClosedAndEmptied) {
  Collector collector(1);
  collector.observer().on_evaluation({.update = 4, .loss = 1.5});
  collector.close();
  EXPECT_FALSE(collector.exhausted());
  const auto evaluation = collector.next(1000.0);
  ASSERT_TRUE(evaluation);
  EXPECT_EQ(std::get<telemetry::Evaluation>(*evaluation).loss, 1.5);
  EXPECT_TRUE(collector.exhausted());
  EXPECT_FALSE(collector.next(1000.0));  // does not wait
}

TEST(Collector, PutsReportsOfManyThreadsTogether) {
  constexpr int kStages = 4, kUpdates = 50;
  Collector collector(kStages);
  const runtime::Observer observer = collector.observer();
  std::vector<std::thread> threads;
  for (int stage = 0; stage < kStages; ++stage) {
    threads.emplace_back([&observer, stage] {
      for (int update = 0; update < kUpdates; ++update) observer.on_update(report(stage, update, update));
    });
  }
  int complete = 0;
  while (complete < kUpdates) {
    const auto next = collector.next(60.0);
    ASSERT_TRUE(next);
    EXPECT_EQ(std::get<CompleteUpdate>(*next).update, complete++);
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace twobw::train
