// Trains: configuration in, run directory out.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/train/run_directory.h"
#include "core/base/config.h"
#include "engine/transport/processes.h"

namespace twobw::train {

struct Outcome {
  Config config;                   // of the run: as given, or as planned
  nlohmann::ordered_json summary;  // as in summary.json
  std::vector<CurvePoint> curve;   // its evaluations
  bool interrupted = false;        // ended by a signal, after the updates that had begun
  // Sentences on lost lines and files: "3 lines of 'PATH' are lost: REASON".
  std::vector<std::string> unwritten = {};
};

struct RunOptions {
  std::string trace;   // a file for the times of every instruction; empty: none
  bool brief = false;  // introduction and evaluations go to the log only
  // Called with {run_dir, first_update, updates}, then with every line of metrics.jsonl. May be null.
  std::function<void(const nlohmann::ordered_json&)> on_record = {};
  // The processes of the run; null if this is the only one. All call train() with the same configuration;
  // rank 0 decides, prints and writes, and has the outcome.
  std::shared_ptr<transport::Processes> processes = {};
};

// Prints progress to stdout. Throws InputError or RunError, in every process.
Outcome train(const Config& config, const RunOptions& options = {});

}  // namespace twobw::train
