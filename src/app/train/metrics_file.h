// metrics.jsonl of a run that is resumed: the lines before the checkpoint stay, its tail is cut off.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace twobw::train {

// The validation loss in the course of a run.
struct CurvePoint {
  std::int64_t update = 0;  // the updates made, so from 1
  double seconds = 0;       // from the start of the run to the end of that update
  double loss = 0;
};

struct PastUpdate {
  std::int64_t update = 0;  // from 0
  double loss = 0;          // not a number where it was none
  std::optional<double> prediction_error;
  bool skipped = false;
};

struct ResumedMetrics {
  std::vector<PastUpdate> updates;      // ascending
  std::vector<CurvePoint> evaluations;  // likewise
  double seconds = 0;                   // that the run took up to there
};

// Keeps the lines of the first `updates` updates, and replaces the file by them; the evaluation after the
// last of them goes too if it `evaluates_again`. A line that is only half written is dropped. Throws
// RunError. A file that is missing has no lines.
ResumedMetrics cut_metrics(const std::string& path, std::int64_t updates, bool evaluates_again);
// Writes these lines of the file `from`, which stays as it is, to `path`.
ResumedMetrics copy_metrics(const std::string& from, const std::string& path, std::int64_t updates,
                            bool evaluates_again);

}  // namespace twobw::train
