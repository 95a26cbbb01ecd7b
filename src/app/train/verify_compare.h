// What verify holds against each other: what the workers reported and what they ended with, and the oracle's.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "engine/runtime/oracle.h"
#include "engine/runtime/setup.h"
#include "engine/runtime/worker.h"

namespace twobw::train {

// What the pipelines said of one update, workers put together.
struct Observed {
  std::map<std::pair<int, int>, telemetry::StageUpdate> workers;  // by replica and stage
  std::optional<double> evaluation;

  std::optional<double> loss() const {
    std::optional<double> mean;
    for (const auto& [worker, update] : workers) {
      if (update.loss) mean = mean.value_or(0) + *update.loss;
    }
    return mean;
  }
};

class Record {
 public:
  runtime::Observer observer() {
    return {.on_update =
                [this](telemetry::StageUpdate update) {
                  std::lock_guard lock(mutex_);
                  Observed& observed = updates_[update.update];
                  observed.workers[{update.replica, update.stage}] = std::move(update);
                },
            .on_evaluation =
                [this](telemetry::Evaluation evaluation) {
                  std::lock_guard lock(mutex_);
                  updates_[evaluation.update].evaluation = evaluation.loss;
                }};
  }
  const Observed& at(std::int64_t update) const { return updates_.at(update); }
  std::size_t size() const { return updates_.size(); }

 private:
  std::mutex mutex_;
  std::map<std::int64_t, Observed> updates_;
};

// Whether the figures are the same bits, or off by no more than this fraction.
bool same(double seen, double expected, double within);

// All three: empty where there is no difference, else the first one in words.
std::string compare_update(const runtime::Setup& setup, const Observed& seen,
                           const runtime::OracleUpdate& expected, double within);

using WeightsByName = std::map<std::string, at::Tensor>;
WeightsByName weights_by_name(const runtime::Oracle& oracle);

// Flat, of a worker by its number.
using WorkerWeights = std::function<at::Tensor(int worker)>;

// How far the final weights are from the oracle's, as a fraction of their length.
std::string compare_length(const WorkerWeights& weights, const WeightsByName& expected,
                           const runtime::Setup& setup, double within);
// The final weights themselves, element by element: names the first element that differs.
std::string compare_weights(const WorkerWeights& weights, const WeightsByName& expected,
                            const runtime::Setup& setup);

}  // namespace twobw::train
