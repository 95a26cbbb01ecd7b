// The figures of a run: throughput and utilisation in its steady state, memory, losses.
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

  // Of a resumed run, before anything else: its time and its curve go on from there.
  void continue_from(const ResumedMetrics& past);

  void add(const CompleteUpdate& update);
  void add(const telemetry::Evaluation& evaluation);

  // Since the update before, without evaluations and copies for checkpoints.
  double tokens_per_s() const;
  double utilisation() const;  // mean over workers
  // Estimate: the remaining updates at the rate of the newer half of those made, and the remaining
  // evaluations at the time of the latest one (before the first, none).
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
  // An entry of a report's list of workers, which says who it is of where there are several replicas.
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
