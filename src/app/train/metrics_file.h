// metrics.jsonl of a run that goes on: what came before the checkpoint, and its tail cut off.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/train/curve.h"

namespace twobw::train {

struct PastUpdate {
  std::int64_t update = 0;  // from 0
  double loss = 0;          // not a number where it was none
  std::optional<double> prediction_error;
  bool skipped = false;
};

struct Past {
  std::vector<PastUpdate> updates;      // ascending
  std::vector<CurvePoint> evaluations;  // likewise
  double seconds = 0;                   // that the run took up to there
};

// Keeps the lines of the first `updates` updates, and replaces the file by them; the evaluation after the
// last of them goes too if it `evaluates_again`. A line that is only half written is dropped. Throws
// RunError. A file that is missing has no lines.
Past cut_metrics(const std::string& path, std::int64_t updates, bool evaluates_again);
// Writes these lines of the file `from`, which stays as it is, to `path`.
Past copy_metrics(const std::string& from, const std::string& path, std::int64_t updates,
                  bool evaluates_again);

}  // namespace twobw::train
