// Trains the same model from the same start under flush and under 2bw, seed by seed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "app/train/comparison.h"
#include "core/base/config.h"

namespace twobw::train {

struct CompareRequest {
  Config config;  // of the runs under 2bw; see to_compare
  int seeds = 3;  // train.seed and those after it
};

// The configuration that such a comparison runs: so many updates, and evaluations in their course (ten where
// train.eval_every gives fewer than four). Throws InputError where 2bw would make the same updates as flush,
// or is not what is configured.
Config to_compare(Config config, std::optional<std::int64_t> updates);

// Seed by seed flush, then 2bw, each in RUN_DIR/SCHEDULE-seedN; prints to stdout as it goes. After every seed
// RUN_DIR/compare.json is written anew. Ctrl-C ends it with the seeds that are complete. Throws
// InputError, and RunError where no seed is.
Comparison compare(const CompareRequest& request);

}  // namespace twobw::train
