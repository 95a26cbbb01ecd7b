// Dropout masks. They are drawn when used, again in the backward, and never stored.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>

#include "engine/models/layer.h"

namespace twobw::models {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

// The mask of one site of a layer for one microbatch (core/base/dropout.h).
struct DropoutMask {
  double rate = 0;
  std::uint64_t site = 0;  // dropout_site() of layer and site
  std::uint64_t key = 0;   // dropout_key() of the microbatch
  at::Tensor key_on_gpu;   // the same key, for tensors on a GPU

  static DropoutMask of(const MicrobatchContext& pass, double rate, int site);

  // For the backward.
  void save(AutogradContext& context) const;
  static DropoutMask saved(AutogradContext& context);
};

namespace ops {

// x [.., n2, n1, width], of at most 4 dimensions, times the mask, plus `residual` (or undefined); `in_place`
// writes to x. Not differentiable.
at::Tensor drop(const at::Tensor& x, const at::Tensor& residual, const DropoutMask& mask,
                bool in_place = false);

}  // namespace ops
}  // namespace twobw::models
