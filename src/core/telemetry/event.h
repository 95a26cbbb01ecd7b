// What workers tell the world. The runtime fills these in; whoever draws or writes them need not
// know where they come from.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/memory_terms.h"
#include "core/schedule/event.h"

namespace twobw::telemetry {

using schedule::Event;

// How far the weights of a batch were from those that a stage had predicted: |P(j) - W(j)|^2, and the step
// that the prediction took, |P(j) - W(j-1)|^2.
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
  double waiting = 0;     // of `elapsed`, that it waited
  double elapsed = 0;     // of training: without the next two
  double evaluating = 0;  // of evaluations
  double saving = 0;      // of copies for checkpoints
  double data_wait = 0;   // of `waiting`, that its thread waited for the data of microbatches
  double learning_rate = 0;
  double gradient_norm = 0;
  bool skipped = false;
  double loss_scale = 1;                 // of the batch; other than 1 with fp16 only
  Footprint peak;                        // of the run so far: when most bytes were in use, by purpose
  std::optional<double> loss;            // its replica's part of the mean over the batch; from the last stage
  std::optional<PredictionMiss> miss;    // now and then, from stages that keep both
  std::vector<std::uint64_t> checksums;  // of the true weights, a number a layer; only when asked for

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

}  // namespace twobw::telemetry
