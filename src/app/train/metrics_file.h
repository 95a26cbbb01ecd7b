// metrics.jsonl of a resumed run: keeps the lines before the checkpoint.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace twobw::train {

// One point of the validation curve.
struct CurvePoint {
  std::int64_t update = 0;  // updates made, from 1
  double seconds = 0;       // from the start of the run to the end of that update
  double loss = 0;
};

struct PastUpdate {
  std::int64_t update = 0;  // from 0
  double loss = 0;          // NaN if it was not finite
  std::optional<double> prediction_error;
  bool skipped = false;
};

struct ResumedMetrics {
  std::vector<PastUpdate> updates;      // ascending
  std::vector<CurvePoint> evaluations;  // ascending
  double seconds = 0;                   // duration of the run so far
};

// Replaces `path` by the lines of the first `updates` updates in `from`, which may be the same file; without
// the evaluation after the last one if the run `evaluates_again`. Drops incomplete lines. Does nothing for a
// missing file `from`. Throws RunError.
ResumedMetrics copy_metrics(const std::string& from, const std::string& path, std::int64_t updates,
                            bool evaluates_again);

}  // namespace twobw::train
