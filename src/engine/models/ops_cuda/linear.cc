// x weight^T, with bias and residual added by the product itself, the residual's gradient being the output's;
// or with the stream x beside it, whose gradient the product of the backward adds.
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "engine/models/ops_cuda.h"
#include "engine/models/ops_cuda/common.h"
#include "engine/models/ops_cuda/products.h"

namespace twobw::models::ops::cuda {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

struct LinearFunction : torch::autograd::Function<LinearFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const std::optional<Tensor>& bias, const std::optional<Tensor>& residual) {
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor rows = rows_of(x);
    auto sizes = x.sizes().vec();
    sizes.back() = weight.size(0);
    Tensor out = at::empty(sizes, x.options());
    multiply_into(rows_of(out), {rows}, {weight, true},
                  {.matrix = residual ? rows_of(*residual) : Tensor(), .bias = bias.value_or(Tensor())});
    context->save_for_backward({rows, weight, bias.value_or(Tensor())});
    context->saved_data["residual"] = residual.has_value();
    return out;
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const auto saved = context->get_saved_variables();
    const Tensor &rows = saved[0], &weight = saved[1], &bias = saved[2];
    const Tensor grad_out = grads[0].contiguous();
    const Tensor grad_rows = rows_of(grad_out);
    Tensor grad_x;
    if (context->needs_input_grad(0)) {
      auto sizes = grad_out.sizes().vec();
      sizes.back() = weight.size(1);
      grad_x = at::empty(sizes, grad_out.options());
      multiply_into(rows_of(grad_x), {grad_rows}, {weight});
    }
    if (weight.requires_grad()) accumulate_product(weight, grad_rows, rows);
    if (bias.defined() && bias.requires_grad()) accumulate_sum(bias, grad_rows);
    return {grad_x, Tensor(), Tensor(), context->saved_data["residual"].toBool() ? grad_out : Tensor()};
  }
};

struct LinearAndStreamFunction : torch::autograd::Function<LinearAndStreamFunction> {
  static tensor_list forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                             const std::optional<Tensor>& bias) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->set_materialize_grads(false);
    const Tensor rows = rows_of(x);
    auto sizes = x.sizes().vec();
    sizes.back() = weight.size(0);
    Tensor out = at::empty(sizes, x.options());
    multiply_into(rows_of(out), {rows}, {weight, true}, {.bias = bias.value_or(Tensor())});
    context->save_for_backward({rows, weight, bias.value_or(Tensor())});
    return {out, at::alias(x)};
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const Tensor grad_stream = grads[1].defined() ? grads[1].contiguous() : Tensor();
    if (!grads[0].defined()) return {grad_stream, Tensor(), Tensor()};
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
    return {grad_x, Tensor(), Tensor()};
  }
};

std::optional<Tensor> given(const Tensor& x) {
  return x.defined() ? std::optional(x) : std::nullopt;
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual) {
  return LinearFunction::apply(x, weight, given(bias), given(residual));
}

std::pair<Tensor, Tensor> linear_and_stream(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const tensor_list outputs = LinearAndStreamFunction::apply(x, weight, given(bias));
  return {outputs[0], outputs[1]};
}

}  // namespace twobw::models::ops::cuda
