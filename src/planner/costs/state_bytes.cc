#include "planner/costs/state_bytes.h"

#include "base/optimizer_kinds.h"
#include "base/precision.h"
#include "schedule/spec.h"

namespace twobw::planner {

StateBytes state_bytes(const OptimizerConfig& optimizer, const std::string& precision, bool delayed,
                       bool predicts) {
  constexpr double kFloat = 4;
  const double element = bytes_per_element(precision);
  StateBytes state{.weights = element,
                   .master = 0,
                   .gradients = kFloat,
                   .optimizer = kFloat * optimizer_kind(optimizer.name).moments};
  if (element < kFloat || predicts) state.master = kFloat;
  if (!delayed) return state;
  const auto weights = optimizer.extrapolate_weights.size(), update = optimizer.extrapolate_update.size();
  if (weights > 0) state.master = kFloat;
  state.optimizer += kFloat * static_cast<double>(update + (weights > 1 ? 1 : 0));
  return state;
}

StateBytes state_bytes(const Config& config) {
  const bool delayed = schedule::is_delayed(config.pipeline.schedule);
  return state_bytes(config.optimizer, config.train.precision, delayed, config.pipeline.predicts());
}

}  // namespace twobw::planner
