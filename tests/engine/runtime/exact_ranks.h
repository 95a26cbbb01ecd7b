// What tests of pipelines in several processes against the serial oracle share.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "app/train/verify.h"
#include "core/base/config.h"
#include "engine/device/cpu.h"
#include "tests/engine/runtime/ranks.h"

namespace twobw::runtime {

// Rank 0 compares: loss, norm and every layer's weights of all workers after every update.
inline void expect_exact_over(const Ranks& ranks, const Config& config,
                              const train::VerifyOptions& options = {}) {
  device::initialize();
  train::Verification result;
  ranks.run([&](int rank) {
    train::VerifyOptions own = options;
    own.processes = ranks[rank];
    const train::Verification verification = train::verify(config, own);
    if (rank == 0) result = verification;
  });
  EXPECT_TRUE(result.equal) << result.difference << "\n" << to_yaml(config);
  EXPECT_TRUE(std::isfinite(result.final_loss));
  EXPECT_EQ(result.skipped, 0);
}

}  // namespace twobw::runtime
