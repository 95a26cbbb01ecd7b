// The layer norm and the RMS norm, alone or with the residual stream beside them.
#include <torch/csrc/autograd/custom_function.h>

#include "engine/models/ops_cuda.h"
#include "engine/models/ops_cuda/common.h"

namespace twobw::models::ops::cuda {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

constexpr double kEps = 1e-5;

// The normed input and, with `stream`, the input itself as a second output, whose gradient the kernel of the
// backward adds.
struct NormFunction : torch::autograd::Function<NormFunction> {
  static tensor_list forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                             const Tensor& bias, double eps, bool stream) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->set_materialize_grads(false);
    const Tensor rows = rows_of(x);
    Tensor out = at::empty(x.sizes(), x.options());
    const Tensor mean = floats(rows.size(0), rows), deviation = floats(rows.size(0), rows);
    with_type_of(rows, [&]<typename T>(T) {
      kernels::layer_norm_forward<T>({.x = data_of<T>(rows),
                                      .weight = data_of<T>(weight),
                                      .bias = data_of<T>(bias),
                                      .out = data_of<T>(out),
                                      .mean = data_of<float>(mean),
                                      .deviation = data_of<float>(deviation),
                                      .rows = rows.size(0),
                                      .width = width_of(rows),
                                      .eps = static_cast<float>(eps)},
                                     current_stream());
    });
    context->save_for_backward({rows, weight, bias, mean, deviation});
    if (!stream) return {out};
    return {out, at::alias(x)};
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const Tensor grad_stream = grads.size() > 1 && grads[1].defined() ? grads[1].contiguous() : Tensor();
    if (!grads[0].defined()) return {grad_stream, Tensor(), Tensor(), Tensor(), Tensor()};
    const auto saved = context->get_saved_variables();
    const Tensor& rows = saved[0];
    const Tensor grad_out = grads[0].contiguous();
    const Tensor grad_weight = gradient_of(saved[1]), grad_bias = gradient_of(saved[2]);
    Tensor grad_x = at::empty(grad_out.sizes(), grad_out.options());
    const Tensor partial = floats(kernels::layer_norm_partials(rows.size(0), width_of(rows)), rows);
    with_type_of(rows, [&]<typename T>(T) {
      kernels::layer_norm_backward<T>(
          {.grad_out = data_of<T>(grad_out),
           .grad_stream = grad_stream.defined() ? data_of<T>(grad_stream) : nullptr,
           .sum = data_of<T>(rows),
           .weight = data_of<T>(saved[1]),
           .mean = data_of<float>(saved[3]),
           .deviation = data_of<float>(saved[4]),
           .grad_x = data_of<T>(grad_x),
           .grad_weight = data_of<float>(grad_weight),
           .grad_bias = data_of<float>(grad_bias),
           .partial = data_of<float>(partial),
           .rows = rows.size(0),
           .width = width_of(rows)},
          current_stream());
    });
    return {grad_x, Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  return NormFunction::apply(x, weight, bias, eps, false)[0];
}

std::pair<Tensor, Tensor> norm_and_stream(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const tensor_list outputs = NormFunction::apply(x, weight, bias, kEps, true);
  return {outputs[0], outputs[1]};
}

namespace {

struct RmsNormFunction : torch::autograd::Function<RmsNormFunction> {
  static tensor_list forward(AutogradContext* context, const Tensor& x, const Tensor& weight, double eps,
                             bool stream) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->set_materialize_grads(false);
    const Tensor rows = rows_of(x);
    Tensor out = at::empty(x.sizes(), x.options());
    const Tensor scale = floats(rows.size(0), rows);
    with_type_of(rows, [&]<typename T>(T) {
      kernels::rms_norm_forward<T>({.x = data_of<T>(rows),
                                    .weight = data_of<T>(weight),
                                    .out = data_of<T>(out),
                                    .scale = data_of<float>(scale),
                                    .rows = rows.size(0),
                                    .width = width_of(rows),
                                    .eps = static_cast<float>(eps)},
                                   current_stream());
    });
    context->save_for_backward({rows, weight, scale});
    if (!stream) return {out};
    return {out, at::alias(x)};
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const Tensor grad_stream = grads.size() > 1 && grads[1].defined() ? grads[1].contiguous() : Tensor();
    if (!grads[0].defined()) return {grad_stream, Tensor(), Tensor(), Tensor()};
    const auto saved = context->get_saved_variables();
    const Tensor &rows = saved[0], &weight = saved[1], &scale = saved[2];
    const Tensor grad_out = grads[0].contiguous(), grad_weight = gradient_of(weight);
    Tensor grad_x = at::empty(grad_out.sizes(), grad_out.options());
    const Tensor partial = floats(kernels::rms_norm_partials(rows.size(0), width_of(rows)), rows);
    with_type_of(rows, [&]<typename T>(T) {
      kernels::rms_norm_backward<T>({.grad_out = data_of<T>(grad_out),
                                     .grad_stream = grad_stream.defined() ? data_of<T>(grad_stream) : nullptr,
                                     .sum = data_of<T>(rows),
                                     .weight = data_of<T>(weight),
                                     .scale = data_of<float>(scale),
                                     .grad_x = data_of<T>(grad_x),
                                     .grad_weight = data_of<float>(grad_weight),
                                     .partial = data_of<float>(partial),
                                     .rows = rows.size(0),
                                     .width = width_of(rows)},
                                    current_stream());
    });
    return {grad_x, Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  return RmsNormFunction::apply(x, weight, eps, false)[0];
}

std::pair<Tensor, Tensor> rms_norm_and_stream(const Tensor& x, const Tensor& weight, double eps) {
  const tensor_list outputs = RmsNormFunction::apply(x, weight, eps, true);
  return {outputs[0], outputs[1]};
}

}  // namespace twobw::models::ops::cuda
