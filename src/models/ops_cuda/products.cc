#include "models/ops_cuda/products.h"

#include <algorithm>

#include "base/error.h"
#include "models/cuda/matmul.h"
#include "models/ops_cuda/common.h"

namespace twobw::models::ops::cuda {
namespace {

using at::Tensor;

std::int64_t stride_of(const Tensor& matrix) {
  TWOBW_ASSERT(matrix.dim() == 2 && (matrix.stride(1) == 1 || matrix.size(1) == 1),
               "not the rows of a matrix");
  return std::max(matrix.stride(0), matrix.size(1));  // one row alone may have any stride
}

kernels::Type type_of(const Tensor& x) {
  if (!is_narrow(x)) return kernels::Type::kFloat;
  return x.scalar_type() == at::kHalf ? kernels::Type::kHalf : kernels::Type::kBfloat16;
}

}  // namespace

void multiply_into(const Tensor& out, const Matrix& a, const Matrix& b, const Added& added) {
  TWOBW_ASSERT(a.columns() == b.rows() && out.size(0) == a.rows() && out.size(1) == b.columns(),
               "a product [{}, {}] x [{}, {}] into [{}, {}]", a.rows(), a.columns(), b.rows(), b.columns(),
               out.size(0), out.size(1));
  TWOBW_ASSERT(a.tensor.scalar_type() == b.tensor.scalar_type(), "a product of {} and {}",
               c10::toString(a.tensor.scalar_type()), c10::toString(b.tensor.scalar_type()));
  kernels::Product product{
      .m = a.rows(),
      .n = b.columns(),
      .k = a.columns(),
      .a = {.data = a.tensor.data_ptr(), .stride = stride_of(a.tensor), .transposed = a.transposed},
      .b = {.data = b.tensor.data_ptr(), .stride = stride_of(b.tensor), .transposed = b.transposed},
      .in = type_of(a.tensor),
      .type = type_of(out),
      .out = out.data_ptr(),
      .out_stride = stride_of(out)};
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
