// The layer norm and the RMS norm, alone or with the residual stream beside them.
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "engine/models/ops_cuda.h"
#include "engine/models/ops_cuda/common.h"

namespace twobw::models::ops::cuda {
namespace {

// The normed input and, with `stream`, the input itself as a second output; the kernel of the backward adds
// the gradient of the stream. Without `bias` an RMS norm.
struct NormFunction : torch::autograd::Function<NormFunction> {
  static tensor_list forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                             const std::optional<Tensor>& bias, double eps, bool stream) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->set_materialize_grads(false);
    const Tensor rows = rows_of(x);
    Tensor out = at::empty(x.sizes(), x.options());
    const Tensor mean = bias ? floats(rows.size(0), rows) : Tensor(), deviation = floats(rows.size(0), rows);
    with_type_of(rows, [&]<typename T>(T) {
      kernels::norm_forward<T>({.x = data_of<T>(rows),
                                .weight = data_of<T>(weight),
                                .bias = bias ? data_of<T>(*bias) : nullptr,
                                .out = data_of<T>(out),
                                .mean = bias ? data_of<float>(mean) : nullptr,
                                .deviation = data_of<float>(deviation),
                                .rows = rows.size(0),
                                .width = width_of(rows),
                                .eps = static_cast<float>(eps)},
                               current_stream());
    });
    context->save_for_backward({rows, weight, bias.value_or(Tensor()), mean, deviation});
    if (!stream) return {out};
    return {out, at::alias(x)};
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const Tensor grad_stream = grads.size() > 1 && grads[1].defined() ? grads[1].contiguous() : Tensor();
    if (!grads[0].defined()) return {grad_stream, Tensor(), Tensor(), Tensor(), Tensor()};
    const auto saved = context->get_saved_variables();
    const Tensor &rows = saved[0], &weight = saved[1], &bias = saved[2], &mean = saved[3];
    const Tensor grad_out = grads[0].contiguous(), grad_weight = gradient_of(weight),
                 grad_bias = bias.defined() ? gradient_of(bias) : Tensor();
    Tensor grad_x = at::empty(grad_out.sizes(), grad_out.options());
    const Tensor partial = floats(kernels::norm_partials(rows.size(0), width_of(rows), bias.defined()), rows);
    with_type_of(rows, [&]<typename T>(T) {
      kernels::norm_backward<T>({.grad_out = data_of<T>(grad_out),
                                 .grad_stream = grad_stream.defined() ? data_of<T>(grad_stream) : nullptr,
                                 .x = data_of<T>(rows),
                                 .weight = data_of<T>(weight),
                                 .mean = mean.defined() ? data_of<float>(mean) : nullptr,
                                 .deviation = data_of<float>(saved[4]),
                                 .grad_x = data_of<T>(grad_x),
                                 .grad_weight = data_of<float>(grad_weight),
                                 .grad_bias = grad_bias.defined() ? data_of<float>(grad_bias) : nullptr,
                                 .partial = data_of<float>(partial),
                                 .rows = rows.size(0),
                                 .width = width_of(rows)},
                                current_stream());
    });
    return {grad_x, Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  return NormFunction::apply(x, weight, given(bias), eps, false)[0];
}

std::pair<Tensor, Tensor> norm_and_stream(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                          double eps) {
  const tensor_list outputs = NormFunction::apply(x, weight, given(bias), eps, true);
  return {outputs[0], outputs[1]};
}

}  // namespace twobw::models::ops::cuda
