// What tests of pipelines against the serial oracle share.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "base/config.h"
#include "device/cpu.h"
#include "train/verify.h"

namespace twobw {

// Few updates of few microbatches, clipped.
inline void make_short(Config& config) {
  config.pipeline.microbatch = 2;
  config.pipeline.microbatches = 4;
  config.optimizer.warmup = 2;
  config.optimizer.lr = 1e-2;
  config.optimizer.clip = 0.5;
  config.train.updates = 6;
  config.train.eval_every = 3;
  config.train.eval_microbatches = 2;
}

inline void expect_exact(const Config& config) {
  device::initialize();
  const train::Verification result = train::verify(config);
  EXPECT_TRUE(result.equal) << result.difference << "\n" << to_yaml(config);
  EXPECT_TRUE(std::isfinite(result.final_loss));
  EXPECT_EQ(result.skipped, 0);
}

}  // namespace twobw
