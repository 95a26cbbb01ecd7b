// The layer norm on CPUs in 16 bits: computed in single precision, and the gradients of its parameters are
// not rounded.
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <torch/csrc/autograd/custom_function.h>

#include "engine/models/ops.h"
#include "engine/models/ops_cuda.h"
#include "engine/models/wide.h"

namespace twobw::models::ops {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

struct NarrowNormFunction : torch::autograd::Function<NarrowNormFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight, const Tensor& bias,
                        double eps) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [out, mean, deviation] =
        at::native_layer_norm(widened(x), x.sizes().slice(x.dim() - 1), widened(weight), widened(bias), eps);
    context->save_for_backward({x, weight, bias, mean, deviation});
    return out.to(x.scalar_type());
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const auto saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &bias = saved[2];
    const auto [grad_x, grad_weight, grad_bias] = at::native_layer_norm_backward(
        widened(grads[0]), widened(x), x.sizes().slice(x.dim() - 1), saved[3], saved[4], widened(weight),
        widened(bias), /*output_mask=*/{true, true, true});
    return {grad_x.to(x.scalar_type()), accumulate(weight, grad_weight), accumulate(bias, grad_bias),
            Tensor()};
  }
};

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  if (x.is_cuda()) return cuda::layer_norm(x, weight, bias, eps);
  if (at::isReducedFloatingType(x.scalar_type())) return NarrowNormFunction::apply(x, weight, bias, eps);
  return at::layer_norm(x, {x.size(-1)}, weight, bias, eps);
}

std::pair<Tensor, Tensor> norm_and_stream(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (x.is_cuda()) return cuda::norm_and_stream(x, weight, bias);
  return {ops::layer_norm(x, weight, bias), x};
}

}  // namespace twobw::models::ops
