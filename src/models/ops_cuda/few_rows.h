// The product of a decoder's step, in which weights are read once for few rows.
#pragma once

#include <ATen/ATen.h>

namespace twobw::models::ops::cuda {

// Whether it takes such: of a step (models/few_rows.h), few rows, each of whole packs of 16 bytes.
bool takes_few_rows(const at::Tensor& x, const at::Tensor& weight);

// As cuda::linear.
at::Tensor few_rows_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                           const at::Tensor& residual);

}  // namespace twobw::models::ops::cuda
