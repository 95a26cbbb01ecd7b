#include "train/run_directory.h"

#include <fmt/chrono.h>

#include <chrono>
#include <ctime>
#include <filesystem>

#include "base/error.h"

namespace twobw::train {

namespace fs = std::filesystem;

RunDirectory::RunDirectory(const Config& config) : directory_(config.run_dir) {
  std::error_code error;
  if (fs::exists(directory_) && !fs::is_directory(directory_)) {
    fail_input("run_dir is '{}', which is a file; give a directory", directory_);
  }
  if (fs::exists(directory_ + "/metrics.jsonl")) {
    int number = 1;
    while (fs::exists(fmt::format("{}.{}", directory_, number))) ++number;
    moved_to_ = fmt::format("{}.{}", directory_, number);
    fs::rename(directory_, moved_to_, error);
  }
  if (!error) fs::create_directories(directory_, error);
  if (!error) {
    std::ofstream(path("config.yaml")) << to_yaml(config);
    metrics_.open(path("metrics.jsonl"));
    log_.open(path("log.txt"));
  }
  if (error || !metrics_ || !log_) fail_input("run_dir is '{}', which cannot be written", directory_);
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
