#include "app/train/run_directory.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <limits>
#include <utility>

#include "app/train/resume.h"
#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/base/text_file.h"

namespace twobw::train {

namespace fs = std::filesystem;

namespace {

// The time that an interrupted or killed run needs to end.
constexpr double kRunEndsWithin = 10;

// Without trailing slashes, so that a number can follow.
fs::path without_slash(const fs::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

// The folder itself, which may be missing, where `directory` is a link to it.
std::string folder_behind(const std::string& directory) {
  constexpr int kMostLinks = 40;  // as Linux has it
  fs::path path = without_slash(directory);
  std::error_code error;
  for (int links = 0; links < kMostLinks && fs::is_symlink(path, error); ++links)
    path = without_slash(path.parent_path() / fs::read_symlink(path, error));
  return path.string();
}

bool exists_at(const std::string& path) {
  std::error_code unknown;
  return fs::exists(fs::symlink_status(path, unknown));
}

// The first free name.
std::string move_away(const std::string& folder, const std::string& run_dir) {
  int number = 1;
  while (exists_at(fmt::format("{}.{}", folder, number))) ++number;
  const std::string moved_to = fmt::format("{}.{}", folder, number);
  std::error_code error;
  fs::rename(folder, moved_to, error);
  if (error)
    fail_input("run_dir is '{}', whose former run cannot be moved to '{}': {}; give another run_dir", run_dir,
               moved_to, error.message());
  return moved_to;
}

void check_apart(const char* key, const std::string& folder, const std::string& run_dir) {
  const fs::path run = fs::weakly_canonical(run_dir), from = fs::weakly_canonical(folder);
  if (std::mismatch(run.begin(), run.end(), from.begin(), from.end()).first == run.end())
    fail_input("{} is '{}', which lies in run_dir, '{}'; give another run_dir", key, folder, run_dir);
}

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

FolderLock lock_run_directory(const std::string& directory) {
  std::error_code unknown;
  const fs::file_status found = fs::status(directory, unknown);
  if (found.type() == fs::file_type::none)
    fail_input("run_dir is '{}', which cannot be used: {}", directory, unknown.message());
  if (!fs::is_directory(found)) return {};
  std::optional<FolderLock> lock = FolderLock::take(directory, kRunEndsWithin);
  if (!lock)
    fail_input(
        "run_dir is '{}', which another run is writing; wait until that has ended, or give another run_dir",
        directory);
  return std::move(*lock);
}

std::string make_run_directory(const std::string& directory, FolderLock& lock) {
  const std::string folder = folder_behind(directory);
  std::error_code error;
  if (exists_at(folder) && !fs::is_directory(folder, error)) {
    fail_input("run_dir is '{}', which is a file; give a directory", directory);
  }
  if (!lock.is_held()) lock = lock_run_directory(directory);
  FolderLock former;
  std::string moved_to;
  if (exists_at(folder + "/metrics.jsonl") || exists_at(folder + "/compare.json")) {
    moved_to = move_away(folder, directory);
    lock.follow_to(moved_to);
    former = std::exchange(lock, FolderLock());
  }
  fs::create_directories(folder, error);
  if (error) fail_input("run_dir is '{}', which cannot be made: {}", directory, error.message());
  if (!lock.is_held()) lock = lock_run_directory(directory);
  return moved_to;
}

void check_source_is_apart(const Config& config) {
  if (config.model.is_imported()) check_apart("model.from", config.model.from, config.run_dir);
  if (is_branch(config)) check_apart("resume", config.resume, config.run_dir);
}

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

RunDirectory::RunDirectory(const Config& config, FolderLock lock, bool continues)
    : lock_(std::move(lock)),
      directory_(config.run_dir),
      moved_to_(continues ? "" : make_run_directory(directory_, lock_)) {
  metrics_.emplace(path("metrics.jsonl"), continues);
  log_.emplace(path("log.txt"), continues);
  replace_text(path("config.yaml"), to_yaml(config));  // resolved, so that it repeats the run
}

RunDirectory::~RunDirectory() {
  for (const std::string& sentence : finish()) print_("warning: " + sentence);
}

void RunDirectory::keep_source(const std::string& model) const {
  std::error_code error;
  fs::create_directories(path("from"), error);
  if (error) fail_run("'{}' cannot be made: {}", path("from"), error.message());
  for (const char* const name : {"config.json", "generation_config.json"}) {
    const fs::path file = fs::path(model) / name;
    std::error_code unreadable;
    const bool is_there = fs::status(file, unreadable).type() != fs::file_type::not_found;
    if (is_there && unreadable) fail_input("'{}' cannot be read: {}", file.string(), unreadable.message());
    if (is_there)
      replace_text(path("from/") + name, read_model_text("model configuration", file, kLargestConfig));
  }
}

void RunDirectory::add_metrics(const nlohmann::ordered_json& line) {
  metrics_->add(line.dump());
  report_problem(*metrics_);
}

void RunDirectory::log(const std::string& line) {
  log_->add(fmt::format("{:%Y-%m-%d %H:%M:%S} {}", fmt::localtime(std::time(nullptr)), line));
  report_problem(*log_);
}

std::vector<std::string> RunDirectory::finish() {
  const std::string of_metrics = metrics_->finish();
  report_problem(*metrics_);
  if (!of_metrics.empty()) log("warning: " + of_metrics);
  std::vector<std::string> sentences = {of_metrics, log_->finish()};
  std::erase(sentences, "");
  return sentences;
}

void RunDirectory::report_problem(LineFile& file) {
  const std::string problem = file.take_problem();
  if (problem.empty()) return;
  const std::string warning = "warning: " + problem + "; its lines are kept in memory until they can be";
  print_(warning);
  log(warning);
}

}  // namespace twobw::train
