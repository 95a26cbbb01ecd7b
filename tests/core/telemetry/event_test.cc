#include "core/telemetry/event.h"

#include <gtest/gtest.h>

#include "core/base/codec.h"

namespace twobw::telemetry {
namespace {

// Every field differs from its default, so that one without a place in fields() would be missed.
TEST(StageUpdate, AllOfItIsEncoded) {
  StageUpdate sent{.replica = 2,
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
  sent.peak[Term::Transfer] = 34;
  EXPECT_EQ(from_bytes<StageUpdate>(to_bytes(sent)), sent);
  const Evaluation evaluation{.update = 7, .loss = 2.5};
  EXPECT_EQ(from_bytes<Evaluation>(to_bytes(evaluation)), evaluation);
}

}  // namespace
}  // namespace twobw::telemetry
