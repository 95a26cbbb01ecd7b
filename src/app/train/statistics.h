// The reports of all workers, combined update by update, and the figures of a run: throughput and utilization
// in steady state, memory, losses.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <variant>
#include <vector>

#include "app/train/run_directory.h"
#include "core/telemetry/event.h"
#include "engine/runtime/setup.h"
#include "engine/runtime/worker.h"

namespace twobw::train {

// One update as all workers saw it.
struct CompleteUpdate {
  std::int64_t update = 0;
  double time = 0;  // of the last worker
  double loss = 0;
  double learning_rate = 0;
  double gradient_norm = 0;
  bool skipped = false;
  double loss_scale = 1;
  // Error of the prediction of its weights, relative to the step; measured in some updates.
  std::optional<double> prediction_error;
  std::vector<telemetry::StageUpdate> stages;  // by replica and stage
};

using Report = std::variant<CompleteUpdate, telemetry::Evaluation>;

// Combines the reports for the thread that prints and writes.
class Collector {
 public:
  explicit Collector(int workers) : workers_(workers) {}

  runtime::Observer observer();  // for the workers' threads
  void close();                  // after the last report

  // The next report in order; nothing after `seconds` without one, or when closed.
  std::optional<Report> next(double seconds);
  bool exhausted() const;

 private:
  void add(telemetry::StageUpdate update);
  void add(const telemetry::Evaluation& evaluation);

  int workers_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::int64_t, std::vector<telemetry::StageUpdate>> partial_;
  std::map<std::int64_t, telemetry::Evaluation> early_;  // some worker has not reported the update yet
  std::deque<Report> ready_;
  bool closed_ = false;
};

class Statistics {
 public:
  explicit Statistics(const runtime::Setup& setup) : setup_(setup) {}

  // For a resumed run, called first: continues its time and its curve.
  void continue_from(const ResumedMetrics& past);

  void add(const CompleteUpdate& update);
  void add(const telemetry::Evaluation& evaluation);

  // Rate of the latest update, without evaluations and copies for checkpoints.
  double tokens_per_s() const;
  double utilisation() const;  // mean over workers
  // Estimate from the rate of the newer half of the updates, and the time of the latest evaluation (0 before
  // the first).
  double seconds_left() const;
  nlohmann::ordered_json metrics_line() const;
  nlohmann::ordered_json summary() const;
  std::vector<CurvePoint> curve() const;  // the evaluations of a run that has ended

 private:
  struct Row {
    double time = 0;                       // of worker 0's update
    double trained = 0;                    // seconds of training until then, since the run was resumed
    std::vector<double> waiting, elapsed;  // by worker
  };
  // An entry in a list of workers; names replica and stage if there are several replicas.
  nlohmann::ordered_json worker_entry(int worker) const;
  // Before the first row: 0.
  double trained_until(std::int64_t row) const {
    return row < 0 ? 0 : rows_[static_cast<std::size_t>(row)].trained;
  }

  const runtime::Setup& setup_;
  std::vector<Row> rows_;
  CompleteUpdate latest_;
  double evaluation_seconds_ = 0;  // of the latest one
  std::vector<double> data_wait_;  // by worker, of the run
  std::int64_t skipped_ = 0;
  std::vector<telemetry::Evaluation> evaluations_;
  std::vector<CurvePoint> curve_before_;  // it was resumed
  double seconds_before_ = 0;             // of the run, before it was resumed
  std::optional<double> best_validation_;
};

}  // namespace twobw::train
