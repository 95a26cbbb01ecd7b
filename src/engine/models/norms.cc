// The layer norm and the RMS norm on CPUs, of hidden states and of single heads.
#include <ATen/Parallel.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <torch/csrc/autograd/custom_function.h>

#include "engine/models/kernels.h"
#include "engine/models/ops.h"
#include "engine/models/ops_cuda.h"

namespace twobw::models::ops {
namespace {

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

struct RmsNormFunction : torch::autograd::Function<RmsNormFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight, double eps) {
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor input = x.contiguous();
    const std::int64_t width = input.size(-1), rows = input.numel() / width;
    const Tensor wide = widened(input), wide_weight = widened(weight);
    Tensor out = at::empty_like(wide), scale = at::empty({rows}, at::kFloat);
    const float *from = wide.const_data_ptr<float>(), *gains = wide_weight.const_data_ptr<float>();
    float *to = out.mutable_data_ptr<float>(), *factors = scale.mutable_data_ptr<float>();
    at::parallel_for(0, rows, 1 + kGrain / width, [&](std::int64_t begin, std::int64_t end) {
      models::rms_norm_forward(from + begin * width, gains, to + begin * width, factors + begin, end - begin,
                               width, eps);
    });
    context->save_for_backward({input, weight, scale});
    return out.to(input.scalar_type());
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const auto saved = context->get_saved_variables();
    const Tensor &input = saved[0], &weight = saved[1], &scale = saved[2];
    const Tensor wide = widened(input), wide_weight = widened(weight), grad_out = widened(grads[0]);
    const std::int64_t width = input.size(-1), rows = input.numel() / width;
    const float *from = wide.const_data_ptr<float>(), *gains = wide_weight.const_data_ptr<float>(),
                *factors = scale.const_data_ptr<float>(), *gradients = grad_out.const_data_ptr<float>();
    Tensor grad_x = at::empty_like(wide);
    float* to = grad_x.mutable_data_ptr<float>();
    at::parallel_for(0, rows, 1 + kGrain / width, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t at = begin * width;
      models::rms_norm_backward(from + at, gains, factors + begin, gradients + at, to + at, end - begin,
                                width);
    });
    Tensor sum = at::zeros({width}, at::kFloat);
    float* sums = sum.mutable_data_ptr<float>();
    at::parallel_for(0, width, 1 + kGrain / rows, [&](std::int64_t begin, std::int64_t end) {
      models::rms_norm_weight_gradient(from, factors, gradients, sums, rows, width, begin, end);
    });
    return {grad_x.to(input.scalar_type()), accumulate(weight, sum), Tensor()};
  }
};

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  if (x.is_cuda()) return cuda::norm(x, weight, bias, eps);
  if (at::isReducedFloatingType(x.scalar_type())) return NarrowNormFunction::apply(x, weight, bias, eps);
  return at::layer_norm(x, {x.size(-1)}, weight, bias, eps);
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  if (x.is_cuda()) return cuda::norm(x, weight, {}, eps);
  return RmsNormFunction::apply(x, weight, eps);
}

std::pair<Tensor, Tensor> norm_and_stream(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                          double eps) {
  if (x.is_cuda()) return cuda::norm_and_stream(x, weight, bias, eps);
  return {bias.defined() ? ops::layer_norm(x, weight, bias, eps) : ops::rms_norm(x, weight, eps), x};
}

Tensor norm_heads(const Tensor& qkv, const Heads& heads, const Tensor& query_weight, const Tensor& key_weight,
                  double eps) {
  const Tensor apart = qkv.view({qkv.size(0), qkv.size(1), heads.all(), heads.size});
  const std::vector<Tensor> parts = apart.split_with_sizes({heads.queries, heads.keys, heads.keys}, 2);
  const Tensor queries = ops::rms_norm(parts[0], query_weight, eps),
               keys = ops::rms_norm(parts[1], key_weight, eps);
  return at::cat({queries, keys, parts[2]}, 2).view(qkv.sizes());
}

}  // namespace twobw::models::ops
