#include "engine/optim/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace twobw::optim {

double learning_rate(const OptimizerConfig& config, std::int64_t updates, std::int64_t t) {
  if (t < config.warmup) return config.lr * static_cast<double>(t + 1) / static_cast<double>(config.warmup);
  if (config.decay == "constant") return config.lr;
  const auto length = static_cast<double>(std::max<std::int64_t>(1, updates - config.warmup));
  const double progress = std::min(1.0, static_cast<double>(t - config.warmup) / length);
  const double remaining =
      config.decay == "linear" ? 1.0 - progress : 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  return config.lr * (config.min_lr + (1.0 - config.min_lr) * remaining);
}

}  // namespace twobw::optim
