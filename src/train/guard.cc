#include "train/guard.h"

#include <fmt/format.h>

#include <cmath>

#include "schedule/spec.h"

namespace twobw::train {
namespace {

constexpr double kUseless = 1.0;       // a prediction that misses by as much as it moved
constexpr int kMissesInARow = 3;       // of those that are looked at
constexpr double kForget = 0.98;       // of the running mean of the loss: over about 50 updates
constexpr std::int64_t kWarmup = 100;  // updates before the mean is worth anything
constexpr double kClimb = 1.15;        // times its lowest

}  // namespace

std::optional<std::string> Guard::add(std::int64_t update, double loss,
                                      std::optional<double> prediction_error) {
  if (shape_.schedule != ScheduleKind::TwoBW) return std::nullopt;
  if (prediction_error) {
    if (auto warning = judge_error(update, *prediction_error)) return warning;
  }
  return judge_loss(update, loss);
}

std::optional<std::string> Guard::judge_error(std::int64_t update, double error) {
  misses_ = error > kUseless ? misses_ + 1 : 0;
  if (misses_ < kMissesInARow || warned_of_error_) return std::nullopt;
  warned_of_error_ = true;
  return fmt::format(
      "warning: at update {} predicted weights miss the true ones by {:.2f} times the step that they "
      "predict, {} times "
      "in a row, so they are no better than none; {}",
      update + 1, error, kMissesInARow, remedy());
}

std::optional<std::string> Guard::judge_loss(std::int64_t update, double loss) {
  if (!std::isfinite(loss)) return std::nullopt;  // such an update is skipped, and said to be
  mean_ = updates_ == 0 ? loss : kForget * mean_ + (1 - kForget) * loss;
  if (++updates_ < kWarmup) return std::nullopt;
  if (updates_ == kWarmup || mean_ < lowest_) {
    lowest_ = mean_;
    lowest_at_ = update;
  }
  if (mean_ < kClimb * lowest_ || warned_of_loss_) return std::nullopt;
  warned_of_loss_ = true;
  return fmt::format(
      "warning: at update {} the loss has climbed to {:.4g} from {:.4g} at update {} (running means); if "
      "flush does not "
      "show the same, {}; else lower optimizer.lr",
      update + 1, mean_, lowest_, lowest_at_ + 1, remedy());
}

std::string Guard::remedy() const {
  if (!shape_.predict) return "set pipeline.predict: true, or pipeline.schedule: flush";
  std::string text =
      fmt::format("take more microbatches an update (pipeline.microbatches is {}", shape_.microbatches);
  const int enough = 2 * (shape_.stages - 1 + shape_.extra) + shape_.slack;
  if (shape_.microbatches < enough) text += fmt::format("; from {} on some run on true weights", enough);
  text += ")";
  if (shape_.extra > 0)
    text += fmt::format(", fewer extra ones in flight (pipeline.extra is {})", shape_.extra);
  return text + ", or pipeline.schedule: flush";
}

}  // namespace twobw::train
