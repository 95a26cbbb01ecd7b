// The state of an optimizer: flat buffers in single precision, of the size of the weights; undefined if the
// optimizer has none. And its division among replicas.
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
  at::Tensor master;  // the true weights, if the layers compute on others
  at::Tensor moment1, moment2;

  // The defined buffers, by name.
  std::vector<std::pair<std::string, at::Tensor>> named() const;
  std::int64_t bytes() const;
};

// Its scalars.
struct Counters {
  std::int64_t applied = 0;  // updates not skipped
  float last_scale = 1;      // clipping factor of the last of them
  LossScaling scaling = {};
};

// The state before the first update. `initial`: flat W(0), copied to the master with `keeps_master`;
// `options`: of the device.
State make_state(const OptimizerConfig& config, const at::Tensor& initial, const at::TensorOptions& options,
                 bool keeps_master);

// The clipping factor for predictions before the first update.
float first_scale(const OptimizerConfig& config);

// Null for an undefined tensor.
float* data_of(const at::Tensor& tensor);

// Shards of a stage's optimizer state, by replica (pipeline.shard_state): contiguous ranges of about the same
// size that cover the flat weights; one may be empty. Cuts lie between the pieces of norms (kernels.h), or
// between parameters for tensorwise updates.
std::vector<weights::Range> shards_of(const OptimizerConfig& config, const weights::Layout& layout,
                                      int replicas);

}  // namespace twobw::optim
