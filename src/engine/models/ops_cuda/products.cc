#include "engine/models/ops_cuda/products.h"

#include <algorithm>

#include "core/base/error.h"
#include "engine/models/cuda/matmul.h"
#include "engine/models/ops_cuda/common.h"

namespace twobw::models::ops::cuda {
namespace {

using at::Tensor;

std::int64_t stride_of(const Tensor& matrix) {
  TWOBW_ASSERT((matrix.dim() == 2 || matrix.dim() == 3) && (matrix.stride(-1) == 1 || matrix.size(-1) == 1),
               "not the rows of a matrix");
  return std::max(matrix.stride(-2), matrix.size(-1));  // one row alone may have any stride
}

// Elements from the matrix of one product to that of the next.
std::int64_t batch_stride(const Tensor& matrices) {
  return matrices.dim() == 3 ? matrices.stride(0) : 0;
}

kernels::Operand operand_of(const Matrix& matrix) {
  return {.data = matrix.tensor.data_ptr(),
          .stride = stride_of(matrix.tensor),
          .transposed = matrix.transposed,
          .apart = batch_stride(matrix.tensor)};
}

kernels::Type type_of(const Tensor& x) {
  if (!is_narrow(x)) return kernels::Type::kFloat;
  return x.scalar_type() == at::kHalf ? kernels::Type::kHalf : kernels::Type::kBfloat16;
}

}  // namespace

void multiply_into(const Tensor& out, const Matrix& a, const Matrix& b, const Added& added) {
  TWOBW_ASSERT(a.columns() == b.rows() && out.size(-2) == a.rows() && out.size(-1) == b.columns(),
               "a product [{}, {}] x [{}, {}] into [{}, {}]", a.rows(), a.columns(), b.rows(), b.columns(),
               out.size(-2), out.size(-1));
  const std::int64_t batch = out.dim() == 3 ? out.size(0) : 1;
  for (const Tensor* tensor : {&a.tensor, &b.tensor}) {
    TWOBW_ASSERT(tensor->dim() == out.dim() && (out.dim() == 2 || tensor->size(0) == batch),
                 "the matrices of {} products", batch);
  }
  TWOBW_ASSERT(a.tensor.scalar_type() == b.tensor.scalar_type(), "a product of {} and {}",
               c10::toString(a.tensor.scalar_type()), c10::toString(b.tensor.scalar_type()));
  kernels::Product product{.m = a.rows(),
                           .n = b.columns(),
                           .k = a.columns(),
                           .a = operand_of(a),
                           .b = operand_of(b),
                           .in = type_of(a.tensor),
                           .type = type_of(out),
                           .out = out.data_ptr(),
                           .out_stride = stride_of(out),
                           .batch = static_cast<int>(batch),
                           .out_apart = batch_stride(out)};
  if (added.matrix.defined()) {
    TWOBW_ASSERT(added.matrix.sizes() == out.sizes() && added.matrix.scalar_type() == out.scalar_type(),
                 "a product and what is added to it differ");
    product.added = added.matrix.data_ptr();
    product.added_stride = stride_of(added.matrix);
  }
  if (added.bias.defined()) {
    TWOBW_ASSERT(added.bias.numel() == out.size(1) && added.bias.is_contiguous() &&
                     added.bias.scalar_type() == out.scalar_type(),
                 "a product and its bias differ");
    product.bias = added.bias.data_ptr();
  }
  kernels::multiply(product, current_stream());
}

void accumulate_product(const Tensor& weight, const Tensor& a, const Tensor& b) {
  const Tensor gradient = gradient_of(weight);
  multiply_into(gradient, {a, true}, {b}, {.matrix = gradient});
}

void accumulate_sum(const Tensor& bias, const Tensor& grad_rows) {
  const Tensor gradient = gradient_of(bias);
  const Tensor partial =
      floats(kernels::column_sums_partials(grad_rows.size(0), width_of(grad_rows)), gradient);
  with_type_of(grad_rows, [&]<typename T>(T) {
    kernels::add_column_sums(data_of<T>(grad_rows), data_of<float>(gradient), data_of<float>(partial),
                             grad_rows.size(0), width_of(grad_rows), current_stream());
  });
}

}  // namespace twobw::models::ops::cuda
