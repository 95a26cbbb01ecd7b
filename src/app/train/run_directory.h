// What a run leaves behind, see docs/reference/run-directory.md.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "core/base/folder_lock.h"
#include "core/base/line_file.h"

namespace twobw::train {

// Keeps other runs out of a directory that is there; of one that is not it locks nothing. Waits 10 s for a
// run there to end; throws InputError where it has not.
FolderLock lock_run_directory(const std::string& directory);

// Makes the directory, and locks it where `lock` does not yet. A former run or comparison there is moved to
// the first free NAME.1, NAME.2, ...: nothing is lost. A symbolic link stays, and the folder that it leads to
// is made or moved. Returns the new name of the former run; empty without one. Throws InputError when it
// cannot be made.
std::string make_run_directory(const std::string& directory, FolderLock& lock);

// Throws InputError where the model to start from, or the run that a branch continues, lies in the run
// directory, which may be moved away.
void check_source_is_apart(const Config& config);

class RunDirectory {
 public:
  // `lock`: of the directory, where that was there before. `continues`: the run there goes on; nothing is
  // moved, and what is written is added to its files.
  RunDirectory(const Config& config, FolderLock lock, bool continues);
  ~RunDirectory();  // prints the sentences of finish() if the run failed before it
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  // `print` is called once for each of metrics.jsonl and log.txt when it cannot be written.
  void warn_with(std::function<void(const std::string& line)> print) { print_ = std::move(print); }

  std::string path(const std::string& file) const { return directory_ + "/" + file; }
  // Where a former run went; empty when there was none.
  const std::string& moved_to() const { return moved_to_; }

  // The resolved configuration, of which the run can be repeated.
  void write_config(const Config& config) const;
  // Copies what describes the Hugging Face model that a run starts from, for the export.
  void keep_source(const std::string& model) const;
  // Lines are written when the disk has room for them (core/base/line_file.h).
  void add_metrics(const nlohmann::ordered_json& line);
  void reopen_metrics();                                            // after the file was replaced
  void write_summary(const nlohmann::ordered_json& summary) const;  // throws RunError
  void log(const std::string& line);
  // At the end of the run: a sentence for each file that lacks lines.
  std::vector<std::string> finish();

 private:
  void report_problem(LineFile& file);

  FolderLock lock_;
  std::string directory_, moved_to_;
  std::optional<LineFile> metrics_, log_;
  std::function<void(const std::string& line)> print_ = [](const std::string&) {};
};

}  // namespace twobw::train
