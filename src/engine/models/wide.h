// Numbers of 16 bits on CPUs: what the loops of engine/models/kernels.h read and write is of 32, and so is
// what gradients of parameters are summed in. With fp32 nothing here copies.
#pragma once

#include <ATen/ATen.h>

namespace twobw::models {

// x in single precision, without gaps.
inline at::Tensor widened(const at::Tensor& x) {
  return x.to(at::kFloat).contiguous();
}

// Adds to the parameter's gradient in place, or gives back what autograd is to add where there is none.
inline at::Tensor accumulate(const at::Tensor& parameter, const at::Tensor& gradient) {
  const at::Tensor& sum = parameter.grad();
  if (!sum.defined()) return gradient;
  sum.add_(gradient);
  return {};
}

}  // namespace twobw::models
