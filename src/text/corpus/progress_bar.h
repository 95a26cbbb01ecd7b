// Progress of prepare() on a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "text/corpus/prepare.h"

namespace twobw::corpus {

// Line on standard error, updated ten times a second and erased at the end. Silent unless standard error is a
// terminal.
class ProgressBar {
 public:
  ProgressBar() = default;
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ~ProgressBar();

  void show(const PrepareProgress& progress);

 private:
  using Clock = std::chrono::steady_clock;

  std::string line(const PrepareProgress& progress, Clock::time_point now) const;

  Clock::time_point begin_ = Clock::now(), shown_ = begin_;
  std::int64_t first_bytes_ = -1;
  bool drawn_ = false;
};

}  // namespace twobw::corpus
