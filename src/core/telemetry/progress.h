// Live progress of a run: one refreshed line on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace twobw::telemetry {

struct Status {
  std::int64_t update = 0, updates = 0;  // done, in all
  double loss = 0;
  double learning_rate = 0;
  double gradient_norm = 0;
  double tokens_per_s = 0;
  double utilisation = 0;
  double seconds_left = 0;
};

class Progress {
 public:
  explicit Progress(bool terminal) : terminal_(terminal) {}
  ~Progress();

  void show(const Status& status);
  // Any other progress: `done` of `all` units; the remaining time is extrapolated.
  void show(std::int64_t done, std::int64_t all, const std::string& unit, const std::string& figures);
  // Prints a permanent line, such as a validation loss.
  void say(const std::string& line);

 private:
  void draw(std::int64_t done, std::int64_t all, const std::string& unit, const std::string& figures,
            double seconds_left);
  void clear();

  bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::optional<std::chrono::steady_clock::time_point> shown_;
};

}  // namespace twobw::telemetry
