// A slot of a stage, the place of one microbatch in flight, and the way of that microbatch through the
// layers: what graphs capture.
#pragma once

#include <torch/csrc/autograd/function.h>

#include <span>

#include "engine/models/model.h"
#include "engine/runtime/stage_compute.h"

namespace twobw::runtime::gpu {

class Slot {
 public:
  // `pass` is the same for every microbatch; its tensors are where theirs are put. Refers to the model.
  Slot(const models::Model& model, const StageSetup& setup, const models::MicrobatchContext& pass);

  const models::MicrobatchContext& pass() const { return pass_; }

  // Queue work on the current stream. A backward follows the forward of the same slot, with the same
  // parameters, whose gradients it accumulates; it takes the gradients of the forward's outputs and gives
  // those of its inputs.
  models::Tensors forward(std::span<const at::Tensor> parameters, const models::Tensors& inputs);
  models::Tensors backward(std::span<const at::Tensor> parameters, const models::Tensors& gradients);

 private:
  models::Tensors run(std::span<const at::Tensor> parameters) const;

  const models::Model& model_;
  int first_layer_, last_layer_;
  bool recompute_;
  models::MicrobatchContext pass_;
  models::Tensors leaves_;            // the inputs as autograd sees them, between a forward and its backward
  torch::autograd::edge_list roots_;  // likewise of the outputs; none under recomputation
};

}  // namespace twobw::runtime::gpu
