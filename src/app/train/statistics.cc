#include "app/train/statistics.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <tuple>

#include "engine/models/model.h"

namespace twobw::train {

using Json = nlohmann::ordered_json;

namespace {

Json by_purpose(const Footprint& footprint) {
  Json bytes = Json::object();
  for (int term = 0; term < kTerms; ++term) {
    bytes[std::string(name(static_cast<Term>(term)))] = static_cast<std::int64_t>(footprint.bytes[term]);
  }
  return bytes;
}

// Worker 0 starts every microbatch, so its time is that of the pipeline.
double paused(const CompleteUpdate& update) {
  const telemetry::StageUpdate& first = update.stages.front();
  return first.evaluating + first.saving;
}

}  // namespace

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

Json Statistics::worker_entry(int worker) const {
  const schedule::Spec& spec = setup_.spec;
  if (spec.shape.replicas == 1) return Json::object();
  return {{"replica", worker / spec.shape.stages}, {"stage", worker % spec.shape.stages}};
}

void Statistics::continue_from(const ResumedMetrics& past) {
  seconds_before_ = latest_.time = past.seconds;
  curve_before_ = past.evaluations;
  for (const CurvePoint& point : curve_before_)
    best_validation_ = std::min(best_validation_.value_or(point.loss), point.loss);
  for (const PastUpdate& update : past.updates) skipped_ += update.skipped;
}

void Statistics::add(const CompleteUpdate& update) {
  const double before = latest_.time;
  latest_ = update;
  // The time of the first stage: it steps at the end of its batch if alone. The others step when their turn
  // comes, and all at once in the last update.
  latest_.time = seconds_before_ + update.stages.front().time;
  skipped_ += update.skipped;
  const double trained = trained_until(std::ssize(rows_) - 1) + latest_.time - before - paused(update);
  if (const double seconds = update.stages.front().evaluating; seconds > 0) evaluation_seconds_ = seconds;
  Row row{.time = latest_.time, .trained = trained};
  data_wait_.resize(update.stages.size());
  for (std::size_t worker = 0; worker < update.stages.size(); ++worker) {
    const telemetry::StageUpdate& stage = update.stages[worker];
    row.waiting.push_back(stage.waiting);
    row.elapsed.push_back(stage.elapsed);
    data_wait_[worker] += stage.data_wait;
  }
  rows_.push_back(std::move(row));
}

void Statistics::add(const telemetry::Evaluation& evaluation) {
  evaluations_.push_back(evaluation);
  best_validation_ = std::min(best_validation_.value_or(evaluation.loss), evaluation.loss);
}

double Statistics::tokens_per_s() const {
  const std::int64_t last = std::ssize(rows_) - 1;
  return runtime::tokens_per_update(setup_.config) /
         std::max(1e-9, trained_until(last) - trained_until(last - 1));
}

double Statistics::utilisation() const {
  double sum = 0;
  for (const auto& stage : latest_.stages) sum += 1.0 - stage.waiting / std::max(1e-9, stage.elapsed);
  return sum / static_cast<double>(latest_.stages.size());
}

double Statistics::seconds_left() const {
  const std::int64_t made = std::ssize(rows_), older = made / 2;
  const double seconds =
      (trained_until(made - 1) - trained_until(older - 1)) / static_cast<double>(made - older);
  const std::int64_t updates = setup_.spec.updates, every = setup_.spec.evaluate_every;
  // The newest weights are still to be evaluated.
  const std::int64_t evaluations = every > 0 ? (updates + every - 1) / every - latest_.update / every : 0;
  return static_cast<double>(updates - latest_.update - 1) * seconds +
         static_cast<double>(evaluations) * evaluation_seconds_;
}

Json Statistics::metrics_line() const {
  Json stages = Json::array();
  double data_wait = 0;
  for (const auto& stage : latest_.stages) {
    data_wait = std::max(data_wait, stage.data_wait);
    Json entry = worker_entry(static_cast<int>(stages.size()));
    entry["utilisation"] = 1.0 - stage.waiting / std::max(1e-9, stage.elapsed);
    entry["peak_bytes"] = static_cast<std::int64_t>(stage.peak.total());
    entry["data_wait_s"] = stage.data_wait;
    stages.push_back(std::move(entry));
  }
  Json line = {{"update", latest_.update + 1},
               {"loss", latest_.loss},
               {"lr", latest_.learning_rate},
               {"grad_norm", latest_.gradient_norm},
               {"tokens_per_s", tokens_per_s()},
               {"skipped", latest_.skipped},
               {"time", latest_.time},
               {"data_wait_s", data_wait},
               {"stages", stages}};
  line["paused_s"] = paused(latest_);
  if (setup_.config.train.precision == "fp16") line["loss_scale"] = latest_.loss_scale;
  if (latest_.prediction_error) line["prediction_error"] = *latest_.prediction_error;
  return line;
}

// In the steady state, where the run is long enough for one; else in its synchronous start, or in all of it.
Json Statistics::summary() const {
  const auto updates = static_cast<std::int64_t>(rows_.size());  // since it was resumed
  schedule::Spec spec = setup_.spec;
  spec.sync_updates = std::max<std::int64_t>(0, spec.sync_updates - spec.first_batch);
  auto steady = schedule::steady_state(spec, updates);
  const bool all_synchronous = !steady && schedule::synchronous_batches(spec) > 0;
  if (all_synchronous)
    steady = schedule::steady_state({.shape = {.schedule = schedule::Kind::Flush}}, updates);
  if (!steady) steady = {.first = 0, .last = std::max<std::int64_t>(updates, 1) - 1};
  const auto [first, last] = *steady;
  Json stages = Json::array();
  double utilisation_sum = 0;
  const int workers = setup_.spec.shape.workers();
  const PipelineShape& shape = setup_.spec.shape;
  for (int worker = 0; worker < workers; ++worker) {
    const int stage = worker % shape.stages;
    double waiting = 0, elapsed = 0;
    for (std::int64_t i = first + 1; i <= last; ++i) {
      waiting += rows_[i].waiting[worker];
      elapsed += rows_[i].elapsed[worker];
    }
    const double utilisation = elapsed > 0 ? 1.0 - waiting / elapsed : 0.0;
    utilisation_sum += utilisation;
    const Footprint peak = updates > 0 ? latest_.stages[worker].peak : Footprint{};
    Json entry = worker_entry(worker);
    entry["layers"] = {shape.first_layer(stage), shape.last_layer(stage) - 1};
    entry["device"] = device::describe(setup_.devices[worker]);
    entry["utilisation"] = utilisation;
    entry["data_wait_s"] = updates > 0 ? data_wait_[static_cast<std::size_t>(worker)] : 0.0;
    entry["peak_bytes"] = static_cast<std::int64_t>(peak.total());
    entry["memory"] = by_purpose(peak);
    stages.push_back(std::move(entry));
  }
  // A run may be interrupted before its first update.
  const double duration =
      last > first ? trained_until(last) - trained_until(first) : trained_until(updates - 1);
  const auto timed = static_cast<double>(last > first ? last - first : std::min<std::int64_t>(updates, 1));
  Json summary = {
      {"updates", setup_.spec.first_batch + updates},
      {"parameters", architecture::parameter_count(setup_.model.layers)},
      {"loss", latest_.loss},
      {"validation_loss", nullptr},
      {"best_validation_loss", nullptr},
      {"tokens_per_s", timed * runtime::tokens_per_update(setup_.config) / std::max(1e-9, duration)},
      {"utilisation", utilisation_sum / workers},
      {"of_synchronous_start", all_synchronous},
      {"skipped_updates", skipped_},
      {"seconds", latest_.time},
      {"data_wait_s", updates > 0 ? std::ranges::max(data_wait_) : 0.0},
      {"schedule", name(setup_.config.pipeline.schedule)},
      {"split", shape.split},
      {"layer_seconds", setup_.layer_seconds},
      {"stages", stages}};
  if (setup_.spec.shape.replicas > 1) summary["replicas"] = setup_.spec.shape.replicas;
  if (updates == 0) summary["loss"] = nullptr;
  if (!curve_before_.empty()) summary["validation_loss"] = curve_before_.back().loss;
  if (!evaluations_.empty()) summary["validation_loss"] = evaluations_.back().loss;
  if (best_validation_) summary["best_validation_loss"] = *best_validation_;
  return summary;
}

std::vector<CurvePoint> Statistics::curve() const {
  std::vector<CurvePoint> points = curve_before_;
  for (const telemetry::Evaluation& evaluation : evaluations_) {
    // Restored weights may be evaluated before any update of this run.
    const std::int64_t row = evaluation.update - setup_.spec.first_batch;
    points.push_back({.update = evaluation.update + 1,
                      .seconds = row < 0 ? seconds_before_ : rows_.at(static_cast<std::size_t>(row)).time,
                      .loss = evaluation.loss});
  }
  return points;
}

}  // namespace twobw::train
