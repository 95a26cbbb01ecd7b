// The folder of a run and its files; see docs/reference/run-directory.md.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "core/base/folder_lock.h"
#include "core/base/line_file.h"

namespace twobw::train {

// Locks an existing directory against other runs; holds nothing for a missing one. Waits up to 10 s for a run
// there to end, then throws InputError.
FolderLock lock_run_directory(const std::string& directory);

// Creates the directory, and locks it unless `lock` already does. Moves a former run or comparison to the
// first free NAME.1, NAME.2, ...; a symbolic link stays and its target moves. Returns the new name of the
// former run; empty without one. Throws InputError if the directory cannot be created.
std::string make_run_directory(const std::string& directory, FolderLock& lock);

// Throws InputError if model.from, or the run that a branch continues, lies in the run directory, which may
// be moved away.
void check_source_is_apart(const Config& config);

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

// Of metrics.jsonl: replaces `path` by the lines of the first `updates` updates in `from`, which may be the
// same file; without the evaluation after the last one if the run `evaluates_again`. Drops incomplete lines.
// Does nothing for a missing file `from`. Throws RunError.
ResumedMetrics copy_metrics(const std::string& from, const std::string& path, std::int64_t updates,
                            bool evaluates_again);

class RunDirectory {
 public:
  // `lock`: of the directory, if it existed. `continues`: resumes the run there, moves nothing and appends to
  // its files.
  RunDirectory(const Config& config, FolderLock lock, bool continues);
  ~RunDirectory();  // prints the sentences of finish() if the run failed before it
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  // `print` is called once for each of metrics.jsonl and log.txt when it cannot be written.
  void warn_with(std::function<void(const std::string& line)> print) { print_ = std::move(print); }

  std::string path(const std::string& file) const { return directory_ + "/" + file; }
  // The new name of a former run; empty without one.
  const std::string& moved_to() const { return moved_to_; }

  // Copies the configuration files of the Hugging Face model that the run starts from, for export.
  void keep_source(const std::string& model) const;
  // Lines wait in memory while the disk is full (core/base/line_file.h).
  void add_metrics(const nlohmann::ordered_json& line);
  // After the file was replaced.
  void reopen_metrics() { metrics_.emplace(path("metrics.jsonl"), /*appends=*/true); }
  void log(const std::string& line);
  // At the end of the run: one sentence per file that lacks lines.
  std::vector<std::string> finish();

 private:
  void report_problem(LineFile& file);

  FolderLock lock_;
  std::string directory_, moved_to_;
  std::optional<LineFile> metrics_, log_;
  std::function<void(const std::string& line)> print_ = [](const std::string&) {};
};

}  // namespace twobw::train
