#include "train/run_directory.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/error.h"

namespace twobw::train {

namespace fs = std::filesystem;

namespace {

// A run that was told to end, or was killed, may need so long.
constexpr double kRunEndsWithin = 10;

}  // namespace

FolderLock lock_run_directory(const std::string& directory) {
  std::error_code unknown;
  if (!fs::is_directory(directory, unknown)) {
    const bool missing =
        unknown == std::errc::no_such_file_or_directory || unknown == std::errc::not_a_directory;
    if (unknown && !missing)
      fail_input("run_dir is '{}', which cannot be used: {}", directory, unknown.message());
    return {};
  }
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
  if (error) fail_input("run_dir is '{}', which cannot be written", directory);
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
  write_config(config);
  const std::ios::openmode mode = continues ? std::ios::app : std::ios::out;
  metrics_.open(path("metrics.jsonl"), mode);
  log_.open(path("log.txt"), mode);
  if (!metrics_ || !log_) fail_input("run_dir is '{}', which cannot be written", directory_);
}

void RunDirectory::write_config(const Config& config) const {
  // A run that is killed here must find it whole when it is resumed.
  const std::string temporary = path("config.yaml.partial");
  std::ofstream(temporary) << to_yaml(config);
  std::error_code error;
  fs::rename(temporary, path("config.yaml"), error);
}

void RunDirectory::keep_source(const std::string& model) const {
  std::error_code error;
  fs::create_directories(path("from"), error);
  for (const char* const name : {"config.json", "generation_config.json"}) {
    const fs::path file = fs::path(model) / name;
    std::error_code unreadable;
    const bool is_there = fs::status(file, unreadable).type() != fs::file_type::not_found;
    if (is_there && unreadable) fail_input("'{}' cannot be read: {}", file.string(), unreadable.message());
    if (!error && is_there)
      fs::copy_file(file, fs::path(path("from")) / name, fs::copy_options::overwrite_existing, error);
  }
  if (error) fail_input("run_dir is '{}', which cannot be written", directory_);
}

void RunDirectory::add_metrics(const nlohmann::ordered_json& line) {
  metrics_ << line.dump() << std::endl;
}

void RunDirectory::reopen_metrics() {
  metrics_.close();
  metrics_.open(path("metrics.jsonl"), std::ios::app);
  if (!metrics_) fail_input("run_dir is '{}', which cannot be written", directory_);
}

void RunDirectory::write_summary(const nlohmann::ordered_json& summary) const {
  std::ofstream(path("summary.json")) << summary.dump(2) << "\n";
}

void RunDirectory::log(const std::string& line) {
  log_ << fmt::format("{:%Y-%m-%d %H:%M:%S} {}", fmt::localtime(std::time(nullptr)), line) << std::endl;
}

}  // namespace twobw::train
