// The training loop as a user means it: configuration in, run directory out.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/train/metrics_file.h"
#include "core/base/config.h"
#include "engine/transport/processes.h"

namespace twobw::train {

struct Outcome {
  Config config;                   // of the run: the one asked for, or as planned
  nlohmann::ordered_json summary;  // as in summary.json
  std::vector<CurvePoint> curve;   // its evaluations
  bool interrupted = false;        // by a signal: ended after the updates that had begun
  // Sentences on lost lines and files: "3 lines of 'PATH' are lost: REASON".
  std::vector<std::string> unwritten = {};
};

struct RunOptions {
  std::string trace;   // a file for the times of every instruction; empty: none
  bool brief = false;  // introduction and evaluations go to the log only
  // That share the workers; none: all are here. All of them call train() with what they have agreed on, and
  // rank 0 decides, prints and writes. Its outcome is the run's; that of the others says nothing.
  std::shared_ptr<transport::Processes> processes = {};
};

// Prints to stdout as it goes. Throws InputError or RunError; the other processes then learn of it.
Outcome train(const Config& config, const RunOptions& options = {});

}  // namespace twobw::train
