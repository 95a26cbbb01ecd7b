#include "core/base/loss_scaling.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/config.h"

namespace twobw {
namespace {

// The scales of the batches, of which those marked x are skipped.
std::vector<float> scales_of(LossScaling scaling, const std::string& verdicts) {
  std::vector<float> scales;
  for (std::size_t batch = 0; batch < verdicts.size(); ++batch) {
    EXPECT_EQ(scale_of(scaling, static_cast<std::int64_t>(batch)), scaling.current);
    const float next = scale_of(scaling, static_cast<std::int64_t>(batch) + 1);
    scales.push_back(scaling.current);
    judge(scaling, verdicts[batch] == 'x');
    EXPECT_EQ(scaling.current, next) << "a batch that began has another scale now";
  }
  return scales;
}

using Scales = std::vector<float>;

TEST(LossScaling, ASkipHalvesTheScaleOfTheSecondBatchAfterIt) {
  const LossScaling start{.current = 64, .next = 64, .window = 100};
  EXPECT_EQ(scales_of(start, "..x...."), (Scales{64, 64, 64, 64, 32, 32, 32}));
}

TEST(LossScaling, BatchesThatHadTheSameScaleHalveItOnce) {
  const LossScaling start{.current = 64, .next = 64, .window = 100};
  EXPECT_EQ(scales_of(start, "xx....."), (Scales{64, 64, 32, 32, 32, 32, 32}));
  EXPECT_EQ(scales_of(start, "xxxx..."), (Scales{64, 64, 32, 32, 16, 16, 16}));
}

TEST(LossScaling, BatchesWithoutASkipDoubleIt) {
  const LossScaling start{.current = 4, .next = 4, .window = 3};
  EXPECT_EQ(scales_of(start, "........"), (Scales{4, 4, 4, 4, 8, 8, 8, 16}));
  EXPECT_EQ(scales_of(start, "..x....."), (Scales{4, 4, 4, 4, 2, 2, 2, 4}));
}

TEST(LossScaling, StaysWithinItsBounds) {
  const LossScaling low{.current = 2, .next = 2, .window = 100};
  EXPECT_EQ(scales_of(low, "xxxxxx"), (Scales{2, 2, 1, 1, 1, 1}));
  const LossScaling high{.current = LossScaling::kMost, .next = LossScaling::kMost, .window = 1};
  EXPECT_EQ(scales_of(high, "....").back(), LossScaling::kMost);
}

TEST(LossScaling, IsOfFp16Alone) {
  for (const char* precision : {"fp32", "bf16"}) {
    TrainConfig train;
    train.precision = precision;
    EXPECT_EQ(scales_of(loss_scaling_of(train), "x..x"), Scales(4, 1));
  }
  TrainConfig train;
  train.precision = "fp16";
  train.loss_scale = 1024;
  EXPECT_EQ(scales_of(loss_scaling_of(train), "x.."), (Scales{1024, 1024, 512}));
}

}  // namespace
}  // namespace twobw
