#include "app/train/loop.h"

#include <fmt/format.h>

#include <cmath>

#include "core/base/loss_scaling.h"
#include "core/base/text.h"

namespace twobw::train {

Loop::Loop(const runtime::Setup& setup, RunDirectory& directory, telemetry::Progress& progress, bool brief)
    : setup_(setup),
      directory_(directory),
      progress_(progress),
      brief_(brief),
      statistics_(setup),
      guard_(setup.config) {}

void Loop::continue_from(const Past& past) {
  statistics_.continue_from(past);
  for (const PastUpdate& update : past.updates)
    guard_.add(update.update, update.loss, update.prediction_error);
}

void Loop::handle(const CompleteUpdate& update) {
  statistics_.add(update);
  nlohmann::ordered_json line = statistics_.metrics_line();
  StragglerReport::Said slow;
  if (stragglers_) slow = stragglers_->add(update);
  if (!slow.stragglers.empty()) line["stragglers"] = slow.stragglers;
  directory_.add_metrics(line);
  checkpoints_->add_update(update.update);
  for (const std::string& sentence : slow.lines) say(sentence);
  if (update.skipped) report_skip(update);
  const std::string warning = guard_.add(update.update, update.loss, update.prediction_error);
  if (!warning.empty()) say(warning);
  progress_.show({.update = update.update + 1,
                  .updates = setup_.spec.updates,
                  .loss = update.loss,
                  .learning_rate = update.learning_rate,
                  .gradient_norm = update.gradient_norm,
                  .tokens_per_s = statistics_.tokens_per_s(),
                  .utilisation = statistics_.utilisation(),
                  .seconds_left = statistics_.seconds_left()});
}

// With fp16 it is how the loss scale finds its size, unless there is nothing left to halve or the loss
// itself is not finite.
void Loop::report_skip(const CompleteUpdate& update) {
  if (update.loss_scale > LossScaling::kLeast && std::isfinite(update.loss)) {
    directory_.log(
        fmt::format("update {} skipped by all stages: its gradient overflows at a loss scale of {}",
                    update.update + 1, update.loss_scale));
    return;
  }
  say(fmt::format("update {} skipped by all stages: its gradient is not finite", update.update + 1));
}

void Loop::handle(const telemetry::Evaluation& evaluation) {
  statistics_.add(evaluation);
  directory_.add_metrics({{"update", evaluation.update + 1}, {"validation_loss", evaluation.loss}});
  checkpoints_->add(evaluation);
  note(fmt::format("after update {}: validation loss {:.4f}", evaluation.update + 1, evaluation.loss));
}

void Loop::handle(const checkpoint::Written& written) {
  if (!written.problem.empty())
    return say(fmt::format("warning: no checkpoint after update {}: {}", written.update, written.problem));
  directory_.add_metrics(
      {{"checkpoint", written.update}, {"bytes", written.bytes}, {"seconds", written.seconds}});
  note(fmt::format("saved a checkpoint after update {}: {} in {:.1f} s", written.update,
                   format_bytes(static_cast<double>(written.bytes)), written.seconds));
}

void Loop::say(const std::string& line) {
  progress_.say(line);
  directory_.log(line);
}

void Loop::note(const std::string& line) {
  if (!brief_) progress_.say(line);
  directory_.log(line);
}

}  // namespace twobw::train
