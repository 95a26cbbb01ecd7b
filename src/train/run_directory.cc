#include "train/run_directory.h"

#include <fmt/chrono.h>

#include <chrono>
#include <ctime>
#include <filesystem>

#include "base/error.h"

namespace twobw::train {

namespace fs = std::filesystem;

std::string make_run_directory(const std::string& directory) {
  std::error_code error;
  if (fs::exists(directory) && !fs::is_directory(directory)) {
    fail_input("run_dir is '{}', which is a file; give a directory", directory);
  }
  std::string moved_to;
  if (fs::exists(directory + "/metrics.jsonl") || fs::exists(directory + "/compare.json")) {
    int number = 1;
    while (fs::exists(fmt::format("{}.{}", directory, number))) ++number;
    moved_to = fmt::format("{}.{}", directory, number);
    fs::rename(directory, moved_to, error);
  }
  if (!error) fs::create_directories(directory, error);
  if (error) fail_input("run_dir is '{}', which cannot be written", directory);
  return moved_to;
}

RunDirectory::RunDirectory(const Config& config)
    : directory_(config.run_dir), moved_to_(make_run_directory(directory_)) {
  write_config(config);
  metrics_.open(path("metrics.jsonl"));
  log_.open(path("log.txt"));
  if (!metrics_ || !log_) fail_input("run_dir is '{}', which cannot be written", directory_);
}

void RunDirectory::write_config(const Config& config) const {
  std::ofstream(path("config.yaml")) << to_yaml(config);
}

void RunDirectory::add_metrics(const nlohmann::ordered_json& line) {
  metrics_ << line.dump() << std::endl;
}

void RunDirectory::write_summary(const nlohmann::ordered_json& summary) const {
  std::ofstream(path("summary.json")) << summary.dump(2) << "\n";
}

void RunDirectory::log(const std::string& line) {
  log_ << fmt::format("{:%Y-%m-%d %H:%M:%S} {}", fmt::localtime(std::time(nullptr)), line) << std::endl;
}

}  // namespace twobw::train
