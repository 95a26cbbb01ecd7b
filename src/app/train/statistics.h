// The figures of a run: throughput and utilization in steady state, memory, losses.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "app/train/collector.h"
#include "app/train/metrics_file.h"
#include "engine/runtime/setup.h"

namespace twobw::train {

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
