// The live view of a run: one line that renews itself on a terminal, plain lines elsewhere.
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
  // Anything else that advances: `done` of `all`, called `unit`, each taking as long as those before.
  void show(std::int64_t done, std::int64_t all, const std::string& unit, const std::string& figures);
  // A line that stays, such as a validation loss.
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
