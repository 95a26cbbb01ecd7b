// The training loop as a user means it: configuration in, run directory out.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/config.h"

namespace twobw::train {

struct Outcome {
  Config config;                   // of the run: the one asked for, or as planned
  nlohmann::ordered_json summary;  // as in summary.json
  bool interrupted = false;        // by Ctrl-C: ended after the updates that had begun
};

// Prints to stdout as it goes. Throws InputError or RunError. `trace`: a file for the times of every
// instruction; empty: none.
Outcome train(const Config& config, const std::string& trace = {});

}  // namespace twobw::train
