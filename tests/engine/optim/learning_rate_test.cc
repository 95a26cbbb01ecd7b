#include "engine/optim/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace twobw::optim {
namespace {

TEST(LearningRate, RisesLinearlyToTheFullRateInTheWarmUp) {
  const OptimizerConfig config{.lr = 0.8, .warmup = 4, .decay = "constant"};
  EXPECT_DOUBLE_EQ(learning_rate(config, 100, 0), 0.2);  // not 0: the first update counts
  EXPECT_DOUBLE_EQ(learning_rate(config, 100, 1), 0.4);
  EXPECT_DOUBLE_EQ(learning_rate(config, 100, 3), 0.8);
  EXPECT_DOUBLE_EQ(learning_rate(config, 100, 4), 0.8);
  EXPECT_DOUBLE_EQ(learning_rate(config, 100, 99), 0.8);
}

TEST(LearningRate, WithoutWarmUpBeginsAtTheFullRate) {
  for (const char* decay : {"constant", "linear", "cosine"}) {
    EXPECT_DOUBLE_EQ(learning_rate({.lr = 0.8, .warmup = 0, .decay = decay}, 10, 0), 0.8) << decay;
  }
}

TEST(LearningRate, LinearDecayEndsAtTheFractionMinLr) {
  const OptimizerConfig config{.lr = 1.0, .warmup = 10, .decay = "linear", .min_lr = 0.1};
  EXPECT_DOUBLE_EQ(learning_rate(config, 110, 10), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(config, 110, 60), 0.55);
  EXPECT_DOUBLE_EQ(learning_rate(config, 110, 109), 0.1 + 0.9 * 0.01);
}

TEST(LearningRate, CosineDecayIsHalfWayAtHalfTheTime) {
  const OptimizerConfig config{.lr = 2.0, .warmup = 10, .decay = "cosine"};
  EXPECT_DOUBLE_EQ(learning_rate(config, 110, 10), 2.0);
  EXPECT_DOUBLE_EQ(learning_rate(config, 110, 35), 1.0 + std::cos(std::numbers::pi / 4));
  EXPECT_DOUBLE_EQ(learning_rate(config, 110, 60), 1.0);
  EXPECT_LT(learning_rate(config, 110, 109), 0.001);
}

TEST(LearningRate, NeverRisesAgainAfterTheLastUpdate) {
  for (const char* decay : {"linear", "cosine"}) {
    const OptimizerConfig config{.lr = 1.0, .warmup = 0, .decay = decay, .min_lr = 0.25};
    EXPECT_DOUBLE_EQ(learning_rate(config, 10, 10), 0.25) << decay;
    EXPECT_DOUBLE_EQ(learning_rate(config, 10, 15), 0.25) << decay;
  }
}

TEST(LearningRate, AWarmUpLongerThanTheRunIsCutShort) {
  const OptimizerConfig config{.lr = 1.0, .warmup = 100, .decay = "cosine"};
  EXPECT_DOUBLE_EQ(learning_rate(config, 50, 49), 0.5);
}

}  // namespace
}  // namespace twobw::optim
