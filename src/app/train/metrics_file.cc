#include "app/train/metrics_file.h"

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/output_file.h"

namespace twobw::train {
namespace {

using Line = nlohmann::ordered_json;

double number_of(const Line& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_number()) return std::numeric_limits<double>::quiet_NaN();
  return found->get<double>();
}

// The updates made when the line was written; the maximum for a line without that.
std::int64_t updates_at(const Line& line) {
  const char* key = line.is_object() && line.contains("checkpoint") ? "checkpoint" : "update";
  if (!line.is_object() || !line.contains(key) || !line[key].is_number_integer())
    return std::numeric_limits<std::int64_t>::max();
  return line[key].get<std::int64_t>();
}

void remember(const Line& line, ResumedMetrics& past) {
  const std::int64_t updates = updates_at(line);
  if (line.contains("validation_loss")) {
    past.evaluations.push_back(
        {.update = updates, .seconds = past.seconds, .loss = number_of(line, "validation_loss")});
  } else if (line.contains("loss")) {
    PastUpdate update{.update = updates - 1, .loss = number_of(line, "loss")};
    if (line.contains("prediction_error")) update.prediction_error = number_of(line, "prediction_error");
    update.skipped = line.contains("skipped") && line["skipped"] == true;
    past.updates.push_back(update);
    const double time = number_of(line, "time");
    if (time > past.seconds) past.seconds = time;
  }
}

}  // namespace

ResumedMetrics copy_metrics(const std::string& from, const std::string& path, std::int64_t updates,
                            bool evaluates_again) {
  ResumedMetrics past;
  std::string kept, text;
  std::ifstream file(from);
  if (!file) return past;
  while (std::getline(file, text)) {
    const Line line = Line::parse(text, nullptr, /*allow_exceptions=*/false);
    const std::int64_t at = updates_at(line);
    if (at > updates) continue;
    if (evaluates_again && at == updates && line.contains("validation_loss")) continue;
    remember(line, past);
    kept += text + "\n";
  }
  file.close();
  replace_text(path, kept);
  return past;
}

}  // namespace twobw::train
