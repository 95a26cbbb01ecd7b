// 16 bits on CPU cores: near single precision, with the loss scale that fp16 needs.
#include <gtest/gtest.h>

#include "tests/engine/runtime/exact.h"
#include "tests/engine/runtime/settings.h"

namespace twobw::runtime {
namespace {

double loss_of(const std::string& settings) {
  const train::Verification result = verified(short_config("pipeline.split=[4,8] " + settings));
  EXPECT_EQ(result.skipped, 0);
  return result.final_loss;
}

TEST(Bfloat16, RoundsAndStaysNearSinglePrecision) {
  const double exact = loss_of(""), near = loss_of("train.precision=bf16");
  EXPECT_NE(near, exact);
  EXPECT_NEAR(near, exact, 0.03 * exact);
}

// Without a scale small gradients vanish.
TEST(Float16, StaysNearSinglePrecision) {
  const double exact = loss_of(""), near = loss_of("train.precision=fp16 train.loss_scale=1024");
  EXPECT_NE(near, exact);
  EXPECT_NEAR(near, exact, 0.01 * exact);
}

// From a scale at which gradients overflow to one where they do not and, after two batches, up again.
TEST(Float16, AllStagesAgreeOnTheLossScale) {
  for (const char* layout :
       {"pipeline.split=[12] pipeline.schedule=flush", "pipeline.split=[4,8] pipeline.schedule=gpipe",
        "pipeline.split=[1,4,7] pipeline.schedule=stash", "pipeline.split=[1,5,5,1]",
        "pipeline.split=[4,8] pipeline.replicas=2 optimizer.clip=0"}) {
    SCOPED_TRACE(layout);
    const train::Verification result = verified(short_config(
        std::string(layout) +
        " train.precision=fp16 train.loss_scale=16777216 train.loss_scale_window=2 train.updates=14"));
    EXPECT_GT(result.skipped, 0);
    EXPECT_LT(result.skipped, 14);
  }
}

}  // namespace
}  // namespace twobw::runtime
