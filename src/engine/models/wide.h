// 16-bit tensors on CPUs: the loops of engine/models/kernels.h read and write single precision, and gradients
// of parameters are summed in it. No copy with fp32.
#pragma once

#include <ATen/ATen.h>

namespace twobw::models {

// x in single precision, contiguous.
inline at::Tensor widened(const at::Tensor& x) {
  return x.to(at::kFloat).contiguous();
}

// Adds to the parameter's gradient in place; without one, returns the gradient for autograd to add.
inline at::Tensor accumulate(const at::Tensor& parameter, const at::Tensor& gradient) {
  const at::Tensor& sum = parameter.grad();
  if (!sum.defined()) return gradient;
  sum.add_(gradient);
  return {};
}

}  // namespace twobw::models
