// The token of each sequence that a decoder's head tells something of it by.
#include <torch/csrc/autograd/custom_function.h>

#include "engine/models/ops.h"

namespace twobw::models::ops {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

struct LastTokenFunction : torch::autograd::Function<LastTokenFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& last) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({last});
    context->saved_data["places"] = x.size(1);
    const Tensor rows = at::arange(x.size(0), last.options()) * x.size(1) + last;
    return x.flatten(0, 1).index_select(0, rows);
  }

  // Element by element: nothing is added, so the order does not matter.
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const Tensor last = context->get_saved_variables()[0];
    const Tensor places = at::arange(context->saved_data["places"].toInt(), last.options());
    const Tensor chosen = places.eq(last.unsqueeze(1)).unsqueeze(2);  // [b, T, 1]
    return {at::where(chosen, grads[0].unsqueeze(1), 0), Tensor()};
  }
};

}  // namespace

Tensor last_token(const Tensor& x, const Tensor& lengths) {
  if (!lengths.defined()) return x.select(1, -1).contiguous();
  return LastTokenFunction::apply(x, lengths.clamp_min(1) - 1);
}

}  // namespace twobw::models::ops
