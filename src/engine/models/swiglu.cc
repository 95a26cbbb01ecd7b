// SwiGLU on CPUs.
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "engine/models/kernels.h"
#include "engine/models/ops.h"
#include "engine/models/ops_cuda.h"
#include "engine/models/wide.h"

namespace twobw::models::ops {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

struct SwigluFunction : torch::autograd::Function<SwigluFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& x) {
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor input = x.contiguous();
    const std::int64_t width = input.size(-1) / 2, rows = input.numel() / (2 * width);
    auto sizes = input.sizes().vec();
    sizes.back() = width;
    const Tensor wide = widened(input);
    Tensor out = at::empty(sizes, wide.options());
    const float* from = wide.const_data_ptr<float>();
    float* to = out.mutable_data_ptr<float>();
    at::parallel_for(0, rows, 1 + kGrain / width, [&](std::int64_t begin, std::int64_t end) {
      models::swiglu_forward(from + begin * 2 * width, to + begin * width, end - begin, width);
    });
    context->save_for_backward({input});
    return out.to(input.scalar_type());
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const Tensor input = context->get_saved_variables()[0];
    const Tensor wide = widened(input), grad_out = widened(grads[0]);
    const std::int64_t width = input.size(-1) / 2, rows = input.numel() / (2 * width);
    Tensor grad_x = at::empty_like(wide);
    const float *from = wide.const_data_ptr<float>(), *gradients = grad_out.const_data_ptr<float>();
    float* to = grad_x.mutable_data_ptr<float>();
    at::parallel_for(0, rows, 1 + kGrain / width, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t at = begin * width;
      models::swiglu_backward(from + 2 * at, gradients + at, to + 2 * at, end - begin, width);
    });
    return {grad_x.to(input.scalar_type())};
  }
};

}  // namespace

Tensor swiglu(const Tensor& x) {
  return x.is_cuda() ? cuda::swiglu(x) : SwigluFunction::apply(x);
}

}  // namespace twobw::models::ops
