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

// The configuration for compare(): `updates` if given, and ten evaluations if train.eval_every gives fewer
// than four. Throws InputError unless pipeline.schedule is 2bw and makes other updates than flush.
Config to_compare(Config config, std::optional<std::int64_t> updates);

// Runs flush, then 2bw for each seed, each in RUN_DIR/SCHEDULE-seedN, and prints progress to stdout. Rewrites
// RUN_DIR/compare.json after every seed. After Ctrl-C the result has the complete seeds. Throws InputError,
// and RunError if no seed is complete.
Comparison compare(const CompareRequest& request);

}  // namespace twobw::train
