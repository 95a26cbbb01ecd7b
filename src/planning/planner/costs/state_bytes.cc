#include "planning/planner/costs/state_bytes.h"

#include "core/base/kinds.h"

namespace twobw::planner {

StateBytes state_bytes(const OptimizerConfig& optimizer, const std::string& precision, bool predicts) {
  constexpr double kFloat = 4;
  const double element = bytes_per_element(precision);
  StateBytes state{.weights = element,
                   .master = 0,
                   .gradients = kFloat,
                   .optimizer = kFloat * optimizer_kind(optimizer.name).moments};
  if (element < kFloat || predicts) state.master = kFloat;
  return state;
}

StateBytes state_bytes(const Config& config) {
  return state_bytes(config.optimizer, config.train.precision, config.pipeline.predicts());
}

}  // namespace twobw::planner
