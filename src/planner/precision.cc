#include "planner/precision.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"

namespace twobw::planner {

const std::vector<std::string>& precisions() {
  static const std::vector<std::string> all = {"fp32", "fp16", "bf16"};
  return all;
}

double bytes_per_element(const std::string& precision) {
  if (std::ranges::find(precisions(), precision) == precisions().end()) {
    fail_input("the precision is '{}'; allowed: {}", precision, fmt::join(precisions(), ", "));
  }
  return precision == "fp32" ? 4 : 2;
}

StateBytes state_bytes(const OptimizerConfig& optimizer, const std::string& precision, bool delayed) {
  constexpr double kFloat = 4;
  const double element = bytes_per_element(precision);
  StateBytes state{.weights = element, .master = 0, .gradients = kFloat, .optimizer = kFloat};
  if (element < kFloat) state.master = kFloat;
  if (optimizer.name == "adamw") state.optimizer += kFloat;
  if (!delayed) return state;
  const auto weights = optimizer.extrapolate_weights.size(), update = optimizer.extrapolate_update.size();
  if (weights > 0) state.master = kFloat;
  state.optimizer += kFloat * static_cast<double>(update + (weights > 1 ? 1 : 0));
  return state;
}

}  // namespace twobw::planner
