#include "telemetry/progress.h"

#include <fmt/format.h>

#include "base/output.h"
#include "base/text.h"

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
  show(status.update, status.updates, "update",
       fmt::format("loss {:.4f}  lr {:.2e}  norm {:.2f}  {} tokens/s  busy {:.0f}%", status.loss,
                   status.learning_rate, status.gradient_norm, format_count(status.tokens_per_s),
                   100 * status.utilisation));
}

void Progress::show(std::int64_t done, std::int64_t all, const std::string& unit,
                    const std::string& figures) {
  const auto now = Clock::now();
  const auto pause = terminal_ ? std::chrono::milliseconds(100) : std::chrono::seconds(5);
  const bool last = done == all;
  if (shown_ && now - *shown_ < pause && !last) return;
  shown_ = now;
  const double fraction = static_cast<double>(done) / static_cast<double>(all);
  const double elapsed = std::chrono::duration<double>(now - began_).count();
  const double left = elapsed * (1.0 - fraction) / std::max(fraction, 1e-9);
  if (terminal_) {
    print_at_once(fmt::format("\r\033[K{}/{} [{}] {}  {} left", done, all, bar(fraction), figures,
                              format_duration(left)));
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
