#include "app/train/collector.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <tuple>

namespace twobw::train {

runtime::Observer Collector::observer() {
  return {.on_update = [this](telemetry::StageUpdate update) { add(std::move(update)); },
          .on_evaluation = [this](telemetry::Evaluation evaluation) { add(evaluation); }};
}

void Collector::add(const telemetry::Evaluation& evaluation) {
  std::lock_guard lock(mutex_);
  if (partial_.contains(evaluation.update)) {
    early_.emplace(evaluation.update, evaluation);
    return;
  }
  ready_.emplace_back(evaluation);
  changed_.notify_all();
}

void Collector::add(telemetry::StageUpdate update) {
  std::lock_guard lock(mutex_);
  auto& parts = partial_[update.update];
  const std::int64_t index = update.update;
  parts.push_back(std::move(update));
  if (static_cast<int>(parts.size()) < workers_) return;

  std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) {
    return std::tie(a.replica, a.stage) < std::tie(b.replica, b.stage);
  });
  CompleteUpdate complete{.update = index,
                          .learning_rate = parts.back().learning_rate,
                          .gradient_norm = parts.back().gradient_norm,
                          .skipped = parts.back().skipped,
                          .loss_scale = parts.back().loss_scale};
  telemetry::PredictionMiss all;
  for (const auto& part : parts) {
    const telemetry::PredictionMiss miss = part.miss.value_or(telemetry::PredictionMiss{});
    all.squared_step += miss.squared_step;
    all.squared_miss += miss.squared_miss;
    complete.time = std::max(complete.time, part.time);
    complete.loss += part.loss.value_or(0);  // in the order of the replicas
  }
  if (all.squared_step > 0) complete.prediction_error = std::sqrt(all.squared_miss / all.squared_step);
  complete.stages = std::move(parts);
  partial_.erase(index);
  ready_.emplace_back(std::move(complete));
  if (const auto early = early_.find(index); early != early_.end()) {
    ready_.emplace_back(early->second);
    early_.erase(early);
  }
  changed_.notify_all();
}

void Collector::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

std::optional<Report> Collector::next(double seconds) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                    [this] { return closed_ || !ready_.empty(); });
  if (ready_.empty()) return std::nullopt;
  Report report = std::move(ready_.front());
  ready_.pop_front();
  return report;
}

bool Collector::exhausted() const {
  std::lock_guard lock(mutex_);
  return closed_ && ready_.empty();
}

}  // namespace twobw::train
