// Pipelines against the serial oracle, in one process and in several.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "app/train/verify.h"
#include "core/base/config.h"
#include "engine/device/device.h"
#include "tests/engine/runtime/ranks.h"

namespace twobw::runtime {

inline train::Verification verified(const Config& config) {
  device::initialize();
  train::Verification result = train::verify(config);
  EXPECT_TRUE(result.equal) << result.difference << "\n" << to_yaml(config);
  return result;
}

// Rank 0 compares: loss, norm and every layer's weights of all workers after every update.
inline train::Verification verified_over(const Ranks& ranks, const Config& config) {
  device::initialize();
  train::Verification result;
  ranks.run([&](int rank) {
    const train::Verification own = train::verify(config, {.processes = ranks[rank]});
    EXPECT_TRUE(own.equal) << "process " << rank;
    if (rank == 0) result = own;
  });
  EXPECT_TRUE(result.equal) << result.difference << "\n" << to_yaml(config);
  return result;
}

inline void expect_exact(const Config& config) {
  const train::Verification result = verified(config);
  EXPECT_TRUE(std::isfinite(result.final_loss));
  EXPECT_EQ(result.skipped, 0);
}

}  // namespace twobw::runtime
