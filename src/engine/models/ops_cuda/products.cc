// Matrix products, and the linear layer.
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "engine/models/cuda/matmul.h"
#include "engine/models/ops_cuda.h"
#include "engine/models/ops_cuda/common.h"

namespace twobw::models::ops::cuda {
namespace {

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
                 "the shape or type of a product and of the matrix added to it differ");
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

namespace {

// With `stream`, x itself is a second output, whose gradient the product of the backward adds.
struct LinearFunction : torch::autograd::Function<LinearFunction> {
  static tensor_list forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                             const std::optional<Tensor>& bias, const std::optional<Tensor>& residual,
                             bool stream) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->set_materialize_grads(false);
    const Tensor rows = rows_of(x);
    auto sizes = x.sizes().vec();
    sizes.back() = weight.size(0);
    Tensor out = at::empty(sizes, x.options());
    multiply_into(rows_of(out), {rows}, {weight, true},
                  {.matrix = residual ? rows_of(*residual) : Tensor(), .bias = bias.value_or(Tensor())});
    context->save_for_backward({rows, weight, bias.value_or(Tensor())});
    context->saved_data["residual"] = residual.has_value();
    if (!stream) return {out};
    return {out, at::alias(x)};
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const Tensor grad_stream = grads.size() > 1 && grads[1].defined() ? grads[1].contiguous() : Tensor();
    if (!grads[0].defined()) return {grad_stream, Tensor(), Tensor(), Tensor(), Tensor()};
    const auto saved = context->get_saved_variables();
    const Tensor &rows = saved[0], &weight = saved[1], &bias = saved[2];
    const Tensor grad_out = grads[0].contiguous(), grad_rows = rows_of(grad_out);
    Tensor grad_x;
    if (context->needs_input_grad(0)) {
      auto sizes = grad_out.sizes().vec();
      sizes.back() = weight.size(1);
      grad_x = at::empty(sizes, grad_out.options());
      multiply_into(rows_of(grad_x), {grad_rows}, {weight},
                    {.matrix = grad_stream.defined() ? rows_of(grad_stream) : Tensor()});
    }
    if (weight.requires_grad()) accumulate_product(weight, grad_rows, rows);
    if (bias.defined() && bias.requires_grad()) accumulate_sum(bias, grad_rows);
    return {grad_x, Tensor(), Tensor(), context->saved_data["residual"].toBool() ? grad_out : Tensor(),
            Tensor()};
  }
};

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual) {
  return LinearFunction::apply(x, weight, given(bias), given(residual), false)[0];
}

std::pair<Tensor, Tensor> linear_and_stream(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const tensor_list outputs = LinearFunction::apply(x, weight, given(bias), std::optional<Tensor>(), true);
  return {outputs[0], outputs[1]};
}

}  // namespace twobw::models::ops::cuda
