// What both backends of the optimizer share: which corrections for the delay are on, and where buffers lie.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "base/config.h"
#include "optim/rules.h"

namespace twobw::optim {

// The corrections of update t, as far as the synchronous start allows them; rules.h, with_history() leaves
// out those whose history does not exist yet.
Extrapolation extrapolation_at(const OptimizerConfig& config, std::int64_t sync_updates, std::int64_t t);

// The clipping factor to predict with before any update was made.
float first_scale(const OptimizerConfig& config);

// Null for a tensor that is not defined.
float* data_of(const at::Tensor& tensor);

}  // namespace twobw::optim
