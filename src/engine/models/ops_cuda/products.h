// Matrix products of tensors (cuda/matmul.h), and what the backward of a product adds to gradients.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace twobw::models::ops::cuda {

// A matrix of a product: 2 dimensions, rows without gaps in them; or one for each of several products along a
// dimension before those. Refers to the tensor.
struct Matrix {
  const at::Tensor& tensor;
  bool transposed = false;

  std::int64_t rows() const { return tensor.size(transposed ? -1 : -2); }
  std::int64_t columns() const { return tensor.size(transposed ? -2 : -1); }
};

// What is added to a single product, of its type; undefined: nothing.
struct Added {
  at::Tensor matrix{};  // of the product's shape; may be what it is written to
  at::Tensor bias{};    // to every row
};

// out = a b, and what is added to it; of several products, each by itself.
void multiply_into(const at::Tensor& out, const Matrix& a, const Matrix& b, const Added& added = {});

// The weight's gradient += a^T b.
void accumulate_product(const at::Tensor& weight, const at::Tensor& a, const at::Tensor& b);
// The bias's gradient += the sums of the columns.
void accumulate_sum(const at::Tensor& bias, const at::Tensor& grad_rows);

}  // namespace twobw::models::ops::cuda
