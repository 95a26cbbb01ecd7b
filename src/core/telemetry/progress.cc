#include "core/telemetry/progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/output.h"
#include "core/base/text.h"

namespace twobw::telemetry {
namespace {

using Clock = std::chrono::steady_clock;

std::string bar(double fraction) {
  constexpr int kWidth = 24;
  const int filled = static_cast<int>(fraction * kWidth);
  std::string text(filled, '=');
  if (filled < kWidth) text += '>';
  text.resize(kWidth, ' ');
  return text;
}

}  // namespace

Progress::~Progress() {
  clear();
}

void Progress::clear() {
  if (!drawn_) return;
  print_at_once("\r\033[K");
  drawn_ = false;
}

void Progress::show(const Status& status) {
  draw(status.update, status.updates, "update",
       fmt::format("loss {:.4f}  lr {:.2e}  norm {:.2f}  {} tokens/s  busy {:.0f}%", status.loss,
                   status.learning_rate, status.gradient_norm, format_count(status.tokens_per_s),
                   100 * status.utilisation),
       status.seconds_left);
}

void Progress::show(std::int64_t done, std::int64_t all, const std::string& unit,
                    const std::string& figures) {
  const double elapsed = std::chrono::duration<double>(Clock::now() - began_).count();
  const double fraction = static_cast<double>(done) / static_cast<double>(all);
  draw(done, all, unit, figures, elapsed * (1.0 - fraction) / std::max(fraction, 1e-9));
}

void Progress::draw(std::int64_t done, std::int64_t all, const std::string& unit, const std::string& figures,
                    double seconds_left) {
  const auto now = Clock::now();
  const auto pause = terminal_ ? std::chrono::milliseconds(100) : std::chrono::seconds(5);
  const bool last = done == all;
  if (shown_ && now - *shown_ < pause && !last) return;
  shown_ = now;
  if (terminal_) {
    const double fraction = static_cast<double>(done) / static_cast<double>(all);
    print_at_once(fmt::format("\r\033[K{}/{} [{}] {}  {} left", done, all, bar(fraction), figures,
                              format_duration(seconds_left)));
    drawn_ = true;
  } else {
    print_at_once(fmt::format("{} {}/{}  {}\n", unit, done, all, figures));
  }
}

void Progress::say(const std::string& line) {
  clear();
  print_at_once(line + "\n");
}

}  // namespace twobw::telemetry
