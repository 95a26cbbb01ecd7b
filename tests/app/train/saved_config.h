// A small run on two stages, and what two runs of it have in common.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "core/base/config.h"
#include "core/schedule/spec.h"
#include "tests/engine/checkpoint/testing.h"

namespace twobw::train {

// With dropout and a tie; saves every other update.
inline Config saved_config(const std::string& run_dir, const std::string& schedule = "2bw") {
  Config config;
  config.model = {
      .layers = 1, .width = 16, .heads = 2, .vocab = 37, .context = 8, .tied = true, .dropout = 0.1};
  config.pipeline.schedule = schedule::parse_kind(schedule);
  config.pipeline.stages = 2;
  config.pipeline.split = {3, 4};
  config.pipeline.microbatch = 1;
  config.pipeline.microbatches = 4;
  config.optimizer.warmup = 2;
  config.train.updates = 9;
  config.train.eval_every = 3;
  config.train.eval_microbatches = 1;
  config.checkpoint.every_updates = 2;
  config.checkpoint.keep = 10;
  config.run_dir = run_dir;
  return config;
}

// The fields of the metrics that do not depend on time, line by line.
inline std::string lines_without_times(const std::string& run_dir) {
  std::istringstream file(testing_files::read_bytes(run_dir + "/metrics.jsonl"));
  std::string lines;
  for (std::string text; std::getline(file, text);) {
    const auto line = nlohmann::ordered_json::parse(text);
    if (line.contains("checkpoint")) continue;
    for (const char* key : {"update", "loss", "lr", "grad_norm", "validation_loss", "prediction_error"})
      if (line.contains(key)) lines += fmt::format("{}={} ", key, line[key].dump());
    lines += "\n";
  }
  return lines;
}

}  // namespace twobw::train
