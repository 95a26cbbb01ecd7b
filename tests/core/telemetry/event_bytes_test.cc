#include "core/telemetry/event_bytes.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace twobw::telemetry {
namespace {

StageUpdate some_update() {
  StageUpdate update{.replica = 2,
                     .stage = 3,
                     .update = 1'000'000'000'000,
                     .time = 1.5,
                     .waiting = 0.25,
                     .elapsed = 0.5,
                     .evaluating = 3.5,
                     .saving = 4.5,
                     .data_wait = 0.125,
                     .learning_rate = 1e-3,
                     .gradient_norm = 7.0,
                     .skipped = true,
                     .loss_scale = 1024,
                     .loss = 0.1,
                     .miss = PredictionMiss{.squared_step = 3, .squared_miss = 0.3},
                     .checksums = {1, 0xffffffffffffffff, 3}};
  update.peak[Term::Gradients] = 12;
  update.peak[Term::Transfer] = 34;
  return update;
}

TEST(EventBytes, AnUpdateArrivesAsItWas) {
  const StageUpdate sent = some_update(), read = to_update(to_bytes(sent));
  EXPECT_EQ(read.replica, 2);
  EXPECT_EQ(read.stage, 3);
  EXPECT_EQ(read.update, 1'000'000'000'000);
  EXPECT_EQ(read.time, 1.5);
  EXPECT_EQ(read.waiting, 0.25);
  EXPECT_EQ(read.elapsed, 0.5);
  EXPECT_EQ(read.evaluating, 3.5);
  EXPECT_EQ(read.saving, 4.5);
  EXPECT_EQ(read.data_wait, 0.125);
  EXPECT_EQ(read.learning_rate, 1e-3);
  EXPECT_EQ(read.gradient_norm, 7.0);
  EXPECT_TRUE(read.skipped);
  EXPECT_EQ(read.loss_scale, 1024);
  EXPECT_EQ(read.peak.bytes, sent.peak.bytes);
  EXPECT_EQ(read.loss, 0.1);
  ASSERT_TRUE(read.miss);
  EXPECT_EQ(read.miss->squared_step, 3);
  EXPECT_EQ(read.miss->squared_miss, 0.3);
  EXPECT_EQ(read.checksums, sent.checksums);
}

TEST(EventBytes, WhatIsNotThereIsNotThere) {
  const StageUpdate read = to_update(to_bytes(StageUpdate{}));
  EXPECT_FALSE(read.loss);
  EXPECT_FALSE(read.miss);
  EXPECT_TRUE(read.checksums.empty());
}

TEST(EventBytes, AnEvaluationArrivesAsItWas) {
  const Evaluation read = to_evaluation(to_bytes(Evaluation{.update = 7, .loss = 2.5}));
  EXPECT_EQ(read.update, 7);
  EXPECT_EQ(read.loss, 2.5);
}

TEST(EventBytes, MissingBytesAreRefused) {
  const std::string update = to_bytes(some_update()), evaluation = to_bytes(Evaluation{});
  for (std::size_t size = 0; size < update.size(); ++size)
    EXPECT_THROW(to_update(std::string_view(update).substr(0, size)), RunError) << size;
  for (std::size_t size = 0; size < evaluation.size(); ++size)
    EXPECT_THROW(to_evaluation(std::string_view(evaluation).substr(0, size)), RunError) << size;
}

}  // namespace
}  // namespace twobw::telemetry
