#include "app/train/guard.h"

#include <fmt/format.h>

#include <cmath>

namespace twobw::train {
namespace {

constexpr double kUseless = 1.0;       // a prediction that misses by as much as it moved
constexpr int kMissesInARow = 3;       // of predictions that are measured
constexpr double kForget = 0.98;       // of the running mean of the loss: over about 50 updates
constexpr std::int64_t kWarmup = 100;  // updates before the mean is worth anything
constexpr double kClimb = 1.15;        // times its lowest
constexpr std::int64_t kCalm = 100;    // synchronous updates of the remedy

}  // namespace

std::string Guard::add(std::int64_t update, double loss, std::optional<double> prediction_error) {
  const PipelineConfig& pipeline = config_.pipeline;
  if (pipeline.schedule != ScheduleKind::TwoBW || pipeline.guard == "off") return {};
  if (update < pipeline.sync_updates) return {};
  std::string failure = prediction_error ? judge_error(update, *prediction_error) : "";
  if (failure.empty()) failure = judge_loss(update, loss);
  return failure.empty() ? "" : "warning: " + failure + "; " + remedy(update);
}

std::string Guard::judge_error(std::int64_t update, double error) {
  misses_ = error > kUseless ? misses_ + 1 : 0;
  if (misses_ < kMissesInARow || warned_of_error_) return "";
  warned_of_error_ = true;
  return fmt::format(
      "at update {} predicted weights miss the true ones by {:.2f} times the step that they predict, {} "
      "times in a row, "
      "so prediction does not help",
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

// From any checkpoint up to the first one after the warning, the resumed run is synchronous for kCalm
// updates.
std::string Guard::remedy(std::int64_t update) const {
  const PipelineConfig& pipeline = config_.pipeline;
  std::string text = fmt::format(
      "for a synchronous stretch interrupt the run, which saves a checkpoint, and continue with resume={} "
      "pipeline.sync_updates={} (counted from update 0), or with pipeline.schedule=flush; to stay with 2bw ",
      config_.run_dir, update + 1 + config_.checkpoint.every_updates + kCalm);
  if (!pipeline.predict) return text + "set pipeline.predict=true";
  text += fmt::format("take more microbatches an update (pipeline.microbatches is {}", pipeline.microbatches);
  const int enough = 2 * (pipeline.stages - 1 + pipeline.extra) + pipeline.step_slack;
  if (pipeline.microbatches < enough) text += fmt::format("; from {} on some run on true weights", enough);
  text += ")";
  if (pipeline.extra > 0)
    text += fmt::format(", fewer extra ones in flight (pipeline.extra is {})", pipeline.extra);
  return text + ", or a lower optimizer.lr";
}

}  // namespace twobw::train
