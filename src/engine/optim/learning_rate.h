#pragma once

#include <cstdint>

#include "core/base/config.h"

namespace twobw::optim {

// The learning rate of update t = 0..updates-1: linear warm-up to optimizer.lr, then the decay to
// optimizer.min_lr times it.
double learning_rate(const OptimizerConfig& config, std::int64_t updates, std::int64_t t);

}  // namespace twobw::optim
