// Products with few rows, as a step of a decoder has: bound by reading the weights. Unlike a matrix product,
// whose order of sums may depend on how many rows there are, a row's result depends on that row alone.
#pragma once

#include <ATen/ATen.h>

namespace twobw::models::ops {

// Whether x [rows, 1, w] is of a step: one token a row, and nobody asks for gradients.
bool is_step(const at::Tensor& x);

// x weight^T + bias (or undefined) on CPUs.
at::Tensor few_rows_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace twobw::models::ops
