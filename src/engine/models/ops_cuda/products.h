// Matrix products of tensors (cuda/matmul.h), and the accumulation of gradients in their backward.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace twobw::models::ops::cuda {

// A matrix with contiguous rows, or a batch of them. Refers to the tensor.
struct Matrix {
  const at::Tensor& tensor;
  bool transposed = false;

  std::int64_t rows() const { return tensor.size(transposed ? -1 : -2); }
  std::int64_t columns() const { return tensor.size(transposed ? -2 : -1); }
};

// Terms added to a single product, of its type; undefined: none.
struct Added {
  at::Tensor matrix{};  // of the product's shape; possibly its output
  at::Tensor bias{};    // added to every row
};

// out = a b + added, for each product of a batch.
void multiply_into(const at::Tensor& out, const Matrix& a, const Matrix& b, const Added& added = {});

// The weight's gradient += a^T b.
void accumulate_product(const at::Tensor& weight, const at::Tensor& a, const at::Tensor& b);
// The bias's gradient += the sums of the columns.
void accumulate_sum(const at::Tensor& bias, const at::Tensor& grad_rows);

}  // namespace twobw::models::ops::cuda
