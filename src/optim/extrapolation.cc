#include "optim/extrapolation.h"

#include <vector>

namespace twobw::optim {
namespace {

float factor(const std::vector<double>& factors, std::size_t index) {
  return index < factors.size() ? static_cast<float>(factors[index]) : 0.0f;
}

}  // namespace

Extrapolation extrapolation_at(const OptimizerConfig& config, std::int64_t sync_updates, std::int64_t t) {
  Extrapolation extrapolation;
  if (t > sync_updates) {
    extrapolation.update = factor(config.extrapolate_update, 0);
    extrapolation.update2 = factor(config.extrapolate_update, 1);
  }
  if (t + 1 > sync_updates) {
    extrapolation.weights = factor(config.extrapolate_weights, 0);
    extrapolation.weights2 = factor(config.extrapolate_weights, 1);
  }
  return extrapolation;
}

float first_scale(const OptimizerConfig& config) {
  return config.clip > 0 ? 0.0f : 1.0f;
}

float* data_of(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.mutable_data_ptr<float>() : nullptr;
}

}  // namespace twobw::optim
