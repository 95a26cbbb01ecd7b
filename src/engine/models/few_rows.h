// Products with few rows, as a step of a decoder has: bound by reading the weights. Unlike a matrix product,
// whose order of sums may depend on how many rows there are, a row's result depends on that row alone.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace twobw::models::ops {

// Marks the operations of this thread as a decoder's, for as long as it lives. The shape alone is ambiguous:
// training and evaluation have sequences of one token too.
class DecodingScope {
 public:
  DecodingScope();
  ~DecodingScope();
  DecodingScope(const DecodingScope&) = delete;
  DecodingScope& operator=(const DecodingScope&) = delete;

 private:
  at::NoGradGuard no_grad_;  // these kernels have no backward
  bool outer_;
};

// Whether x [rows, 1, w] is one token a row of a decoder.
bool is_step(const at::Tensor& x);

// x weight^T + bias (or undefined) on CPUs.
at::Tensor few_rows_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace twobw::models::ops
