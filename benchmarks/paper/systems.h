// The five systems, each with the microbatch size, recomputation and placement that suit it best.
#pragma once

#include <optional>
#include <string>

#include "setting.h"

namespace twobw::paper {

struct Outcome {
  double sequences_per_s = 0;  // modelled
  std::string how;             // "b=4 recompute"
};

// Nothing: it does not fit.
std::optional<Outcome> run(System system, const Row& row, const Fitted& fitted);

// A pipeline, by the planner's costs and memory, timed by simulator/.
std::optional<Outcome> run_pipeline(System system, const Row& row, const Fitted& fitted);
// Every block's matrices cut over row.stages devices.
std::optional<Outcome> run_tensor(const Row& row, const Fitted& fitted);

// Recomputing, with a flush after every eight microbatches.
std::optional<Outcome> run_gpipe(const Row& row, const Fitted& fitted);

// Blocks of this width that a 2BW pipeline of this many V100 can train, recomputing, b sequences a
// microbatch; 0: not one a stage.
int most_blocks(ModelConfig model, int stages, int b);
double parameters(const ModelConfig& model);

}  // namespace twobw::paper
