// GELU, by its tanh approximation or by erf, and SwiGLU.
#include <torch/csrc/autograd/custom_function.h>

#include "engine/models/ops_cuda.h"
#include "engine/models/ops_cuda/common.h"

namespace twobw::models::ops::cuda {
namespace {

template <kernels::Gelu kKind>
struct GeluFunction : torch::autograd::Function<GeluFunction<kKind>> {
  static Tensor forward(AutogradContext* context, const Tensor& x) {
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor input = x.contiguous();
    Tensor out = at::empty(input.sizes(), input.options());
    with_type_of(input, [&]<typename T>(T) {
      kernels::gelu_forward<T>(data_of<T>(input), data_of<T>(out), input.numel(), current_stream(), kKind);
    });
    context->save_for_backward({input});
    return out;
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const Tensor input = context->get_saved_variables()[0];
    const Tensor grad_out = grads[0].contiguous();
    Tensor grad_x = at::empty(input.sizes(), input.options());
    with_type_of(input, [&]<typename T>(T) {
      kernels::gelu_backward<T>(data_of<T>(input), data_of<T>(grad_out), data_of<T>(grad_x), input.numel(),
                                current_stream(), kKind);
    });
    return {grad_x};
  }
};

struct SwigluFunction : torch::autograd::Function<SwigluFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& x) {
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor rows = rows_of(x);
    auto sizes = x.sizes().vec();
    sizes.back() /= 2;
    Tensor out = at::empty(sizes, x.options());
    with_type_of(rows, [&]<typename T>(T) {
      kernels::swiglu_forward<T>(data_of<T>(rows), data_of<T>(out), rows.size(0), width_of(out),
                                 current_stream());
    });
    context->save_for_backward({rows});
    return out;
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const Tensor rows = context->get_saved_variables()[0];
    const Tensor grad_out = grads[0].contiguous();
    auto sizes = grad_out.sizes().vec();
    sizes.back() *= 2;
    Tensor grad_x = at::empty(sizes, grad_out.options());
    with_type_of(rows, [&]<typename T>(T) {
      kernels::swiglu_backward<T>(data_of<T>(rows), data_of<T>(grad_out), data_of<T>(grad_x), rows.size(0),
                                  width_of(grad_out), current_stream());
    });
    return {grad_x};
  }
};

}  // namespace

Tensor gelu(const Tensor& x) {
  return GeluFunction<kernels::Gelu::Tanh>::apply(x);
}

Tensor erf_gelu(const Tensor& x) {
  return GeluFunction<kernels::Gelu::Erf>::apply(x);
}

Tensor swiglu(const Tensor& x) {
  return SwigluFunction::apply(x);
}

}  // namespace twobw::models::ops::cuda
