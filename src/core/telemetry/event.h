// Records that workers emit: the runtime fills them in, and traces, metrics and checks read them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/memory_terms.h"
#include "core/schedule/instruction.h"

namespace twobw::telemetry {

using schedule::Event;

// Error of a stage's predicted weights, |P(j) - W(j)|^2, and the step of the prediction, |P(j) - W(j-1)|^2.
struct PredictionMiss {
  double squared_step = 0;
  double squared_miss = 0;

  friend bool operator==(const PredictionMiss&, const PredictionMiss&) = default;
};

// One worker after one update.
struct StageUpdate {
  int replica = 0;
  int stage = 0;
  std::int64_t update = 0;
  double time = 0;  // seconds since the run began
  // Seconds since the stage's previous update:
  double waiting = 0;     // part of `elapsed` spent waiting
  double elapsed = 0;     // training, without the next two
  double evaluating = 0;  // evaluations
  double saving = 0;      // copies for checkpoints
  double data_wait = 0;   // part of `waiting` spent on the data of microbatches
  double learning_rate = 0;
  double gradient_norm = 0;
  bool skipped = false;
  double loss_scale = 1;                 // of the batch; other than 1 with fp16 only
  Footprint peak;                        // of the run so far, by purpose
  std::optional<double> loss;            // the replica's part of the mean over the batch; from the last stage
  std::optional<PredictionMiss> miss;    // occasionally, from stages that keep P(j) and W(j)
  std::vector<std::uint64_t> checksums;  // of the true weights, one per layer; only on request

  static void fields(auto& self, auto&& visit) {
    visit(self.replica, self.stage, self.update, self.time, self.waiting, self.elapsed, self.evaluating,
          self.saving, self.data_wait, self.learning_rate, self.gradient_norm, self.skipped, self.loss_scale,
          self.peak, self.loss, self.miss, self.checksums);
  }
  friend bool operator==(const StageUpdate&, const StageUpdate&) = default;
};

// The validation loss of W(update+1).
struct Evaluation {
  std::int64_t update = 0;
  double loss = 0;

  static void fields(auto& self, auto&& visit) { visit(self.update, self.loss); }
  friend bool operator==(const Evaluation&, const Evaluation&) = default;
};

// Writes the Trace Event Format, which chrome://tracing and Perfetto open: one group of rows per replica, one
// row per stage; every cell names microbatch, batch and version. Throws RunError if it cannot be written.
void write_trace(const std::string& path, std::span<const Event> events);

}  // namespace twobw::telemetry
