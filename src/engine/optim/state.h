// What an optimizer remembers from one update to the next: flat buffers in single precision, as large as the
// weights, by name. Not defined: this optimizer does without.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/base/config.h"
#include "core/base/loss_scaling.h"
#include "engine/weights/layout.h"

namespace twobw::optim {

struct State {
  at::Tensor master;  // the true weights, where what is computed with differs from them
  at::Tensor moment1, moment2;

  // Those that are defined.
  std::vector<std::pair<std::string, at::Tensor>> named() const;
  std::int64_t bytes() const;
};

// What it counts besides.
struct Counters {
  std::int64_t applied = 0;  // updates not skipped
  float last_scale = 1;      // from clipping, of the last of them
  LossScaling scaling = {};
};

// Zeros, where `initial`, flat W(0), is to be trained; `options`: of the device. With `keeps_master` the
// master is a copy of it.
State make_state(const OptimizerConfig& config, const at::Tensor& initial, const at::TensorOptions& options,
                 bool keeps_master);

// The clipping factor to predict with before any update was made.
float first_scale(const OptimizerConfig& config);

// Null for an undefined tensor.
float* data_of(const at::Tensor& tensor);

// Shards of a stage's optimizer state, by replica (pipeline.shard_state): contiguous ranges of about the same
// size that cover the flat weights; one may be empty. Cuts lie between the pieces of norms (kernels.h), or
// between parameters for tensorwise updates.
std::vector<weights::Range> shards_of(const OptimizerConfig& config, const weights::Layout& layout,
                                      int replicas);

}  // namespace twobw::optim
