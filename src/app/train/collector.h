// Combines the reports of all workers, update by update, for the thread that prints and writes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <variant>
#include <vector>

#include "core/telemetry/event.h"
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

}  // namespace twobw::train
