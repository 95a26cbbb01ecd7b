#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

#include "core/base/text.h"
#include "text/corpus/prepare.h"

namespace twobw::corpus {

namespace {

using Clock = std::chrono::steady_clock;

class ProgressBar {
 public:
  ProgressBar() = default;
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ~ProgressBar() {
    if (drawn_) fmt::print(stderr, "\r\x1B[K");
  }

  void show(const PrepareProgress& progress) {
    const Clock::time_point now = Clock::now();
    if (isatty(STDERR_FILENO) == 0 || now - shown_ < std::chrono::milliseconds(100)) return;
    shown_ = now;
    drawn_ = true;
    if (first_bytes_ < 0) first_bytes_ = progress.bytes;
    fmt::print(stderr, "\r\x1B[K{}", line(progress, now));
  }

 private:
  std::string line(const PrepareProgress& progress, Clock::time_point now) const {
    constexpr int kWidth = 24;
    const double total = static_cast<double>(std::max<std::int64_t>(progress.total_bytes, 1));
    const double part = std::min(static_cast<double>(progress.bytes) / total, 1.0);
    const std::string bar(static_cast<std::size_t>(part * kWidth), '=');
    // Speed of this run, without inputs finished by an interrupted one.
    const double seconds = std::chrono::duration<double>(now - begin_).count();
    const double speed = static_cast<double>(progress.bytes - first_bytes_) / std::max(seconds, 1e-3);
    const double left = static_cast<double>(progress.total_bytes - progress.bytes) / std::max(speed, 1.0);
    return fmt::format("[{:<{}}] {:3.0f}%  {} documents, {} tokens, {}/s, {} left", bar, kWidth, part * 100,
                       format_count(static_cast<double>(progress.documents)),
                       format_count(static_cast<double>(progress.tokens)), format_bytes(speed),
                       speed > 0 ? format_duration(left) : "?");
  }

  Clock::time_point begin_ = Clock::now(), shown_ = begin_;
  std::int64_t first_bytes_ = -1;
  bool drawn_ = false;
};

}  // namespace

std::function<void(const PrepareProgress&)> progress_bar() {
  return [bar = std::make_shared<ProgressBar>()](const PrepareProgress& progress) { bar->show(progress); };
}

}  // namespace twobw::corpus
