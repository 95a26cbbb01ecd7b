#include "train/run_directory.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/durable.h"
#include "base/error.h"
#include "base/text_file.h"

namespace twobw::train {

namespace fs = std::filesystem;

namespace {

// A run that was told to end, or was killed, may need so long.
constexpr double kRunEndsWithin = 10;

}  // namespace

FolderLock lock_run_directory(const std::string& directory) {
  std::error_code unknown;
  if (!fs::is_directory(directory, unknown)) return {};
  std::optional<FolderLock> lock = FolderLock::take(directory, kRunEndsWithin);
  if (!lock)
    fail_input(
        "run_dir is '{}', which another run is writing; wait until that has ended, or give another run_dir",
        directory);
  return std::move(*lock);
}

std::string make_run_directory(const std::string& directory, FolderLock& lock) {
  std::error_code error;
  if (fs::exists(directory) && !fs::is_directory(directory)) {
    fail_input("run_dir is '{}', which is a file; give a directory", directory);
  }
  if (!lock.is_held()) lock = lock_run_directory(directory);
  FolderLock former;
  std::string moved_to;
  if (fs::exists(directory + "/metrics.jsonl") || fs::exists(directory + "/compare.json")) {
    int number = 1;
    while (fs::exists(fmt::format("{}.{}", directory, number))) ++number;
    moved_to = fmt::format("{}.{}", directory, number);
    fs::rename(directory, moved_to, error);
    if (!error) {
      lock.follow_to(moved_to);
      former = std::exchange(lock, FolderLock());
    }
  }
  if (!error) fs::create_directories(directory, error);
  if (error) fail_input("run_dir is '{}', which cannot be written: {}", directory, error.message());
  if (!lock.is_held()) lock = lock_run_directory(directory);
  return moved_to;
}

void check_source_is_apart(const Config& config) {
  if (!config.model.is_imported()) return;
  const fs::path run = fs::weakly_canonical(config.run_dir), from = fs::weakly_canonical(config.model.from);
  if (std::mismatch(run.begin(), run.end(), from.begin(), from.end()).first == run.end())
    fail_input("model.from is '{}', which lies in run_dir, '{}'; give another run_dir", config.model.from,
               config.run_dir);
}

RunDirectory::RunDirectory(const Config& config, FolderLock lock, bool continues)
    : lock_(std::move(lock)),
      directory_(config.run_dir),
      moved_to_(continues ? "" : make_run_directory(directory_, lock_)) {
  metrics_.emplace(path("metrics.jsonl"), continues);
  log_.emplace(path("log.txt"), continues);
  write_config(config);
}

RunDirectory::~RunDirectory() {
  for (const std::string& sentence : finish()) print_("warning: " + sentence);
}

void RunDirectory::write_config(const Config& config) const {
  replace_text(path("config.yaml"), to_yaml(config));
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

void RunDirectory::reopen_metrics() {
  metrics_.emplace(path("metrics.jsonl"), /*appends=*/true);
}

void RunDirectory::write_summary(const nlohmann::ordered_json& summary) const {
  replace_text(path("summary.json"), summary.dump(2) + "\n");
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
