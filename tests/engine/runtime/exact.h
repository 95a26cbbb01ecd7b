// What tests of pipelines against the serial oracle share.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "app/train/verify.h"
#include "core/base/config.h"
#include "engine/device/cpu.h"

namespace twobw {

inline void expect_exact(const Config& config) {
  device::initialize();
  const train::Verification result = train::verify(config);
  EXPECT_TRUE(result.equal) << result.difference << "\n" << to_yaml(config);
  EXPECT_TRUE(std::isfinite(result.final_loss));
  EXPECT_EQ(result.skipped, 0);
}

}  // namespace twobw
