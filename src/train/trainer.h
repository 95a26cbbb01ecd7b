// The training loop as a user means it: configuration in, run directory out.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/config.h"
#include "train/curve.h"

namespace twobw::train {

struct Outcome {
  Config config;                   // of the run: the one asked for, or as planned
  nlohmann::ordered_json summary;  // as in summary.json
  std::vector<CurvePoint> curve;   // its evaluations
  bool interrupted = false;        // by Ctrl-C: ended after the updates that had begun
};

struct RunOptions {
  std::string trace;   // a file for the times of every instruction; empty: none
  bool brief = false;  // introduction and evaluations go to the log only
};

// Prints to stdout as it goes. Throws InputError or RunError.
Outcome train(const Config& config, const RunOptions& options = {});

}  // namespace twobw::train
