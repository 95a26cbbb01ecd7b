#include "app/train/guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace twobw::train {
namespace {

constexpr double kUseless = 1.0;       // a prediction that misses by as much as it moved
constexpr int kMissesInARow = 3;       // of those that are looked at
constexpr double kForget = 0.98;       // of the running mean of the loss: over about 50 updates
constexpr std::int64_t kWarmup = 100;  // updates before the mean is worth anything
constexpr double kClimb = 1.15;        // times its lowest

}  // namespace

Guard::Verdict Guard::add(std::int64_t update, double loss, std::optional<double> prediction_error) {
  if (config_.schedule != ScheduleKind::TwoBW || config_.guard == "off") return {};
  const std::int64_t batch = update + kAhead;
  std::string failure = prediction_error ? judge_error(update, *prediction_error) : "";
  if (failure.empty()) failure = judge_loss(update, loss);
  if (failure.empty()) {
    const std::int64_t until = fallbacks_.empty() ? 0 : fallbacks_.back().end;
    const bool ends = batch == until && until > 0;
    return {.said = ends ? fmt::format("batch {} and those after it run under 2bw again", batch + 1) : "",
            .synchronous = batch < until};
  }
  if (!falls_back()) return {.said = "warning: " + failure + "; " + remedy()};
  // After it all is judged anew.
  const schedule::BatchRange range{.begin = batch, .end = batch + config_.guard_updates};
  if (!fallbacks_.empty() && fallbacks_.back().end >= batch) {
    fallbacks_.back().end = range.end;
  } else {
    fallbacks_.push_back(range);
  }
  misses_ = 0;
  updates_ = 0;
  warned_of_error_ = warned_of_loss_ = false;
  return {.said = fmt::format("{}: batches {} to {} run under flush", failure, batch + 1, range.end),
          .synchronous = true};
}

bool Guard::fell_back_at(std::int64_t update) const {
  return std::ranges::any_of(fallbacks_, [&](const schedule::BatchRange& range) {
    return range.begin <= update && update < range.end;
  });
}

std::string Guard::judge_error(std::int64_t update, double error) {
  misses_ = error > kUseless ? misses_ + 1 : 0;
  if (misses_ < kMissesInARow || warned_of_error_) return "";
  warned_of_error_ = true;
  return fmt::format(
      "at update {} predicted weights miss the true ones by {:.2f} times the step that they predict, {} "
      "times in a row, "
      "so they are no better than none",
      update + 1, error, kMissesInARow);
}

std::string Guard::judge_loss(std::int64_t update, double loss) {
  if (!std::isfinite(loss)) return "";  // such an update is skipped, and said to be
  mean_ = updates_ == 0 ? loss : kForget * mean_ + (1 - kForget) * loss;
  if (++updates_ < kWarmup) return "";
  if (updates_ == kWarmup || mean_ < lowest_) {
    lowest_ = mean_;
    lowest_at_ = update;
  }
  if (mean_ < kClimb * lowest_ || warned_of_loss_) return "";
  warned_of_loss_ = true;
  return fmt::format("at update {} the loss has climbed to {:.4g} from {:.4g} at update {} (running means)",
                     update + 1, mean_, lowest_, lowest_at_ + 1);
}

std::string Guard::remedy() const {
  if (!config_.predict) return "set pipeline.predict: true, or pipeline.schedule: flush";
  std::string text =
      fmt::format("take more microbatches an update (pipeline.microbatches is {}", config_.microbatches);
  const int enough = 2 * (config_.stages - 1 + config_.extra) + config_.slack;
  if (config_.microbatches < enough) text += fmt::format("; from {} on some run on true weights", enough);
  text += ")";
  if (config_.extra > 0)
    text += fmt::format(", fewer extra ones in flight (pipeline.extra is {})", config_.extra);
  return text + ", a lower optimizer.lr, or pipeline.schedule: flush";
}

}  // namespace twobw::train
