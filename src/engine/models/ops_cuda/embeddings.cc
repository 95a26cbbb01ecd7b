// Token and position embeddings, gathered and added; and the rotary embedding.
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "core/base/error.h"
#include "engine/device/gpu.h"
#include "engine/models/ops_cuda.h"
#include "engine/models/ops_cuda/common.h"

namespace twobw::models::ops::cuda {
namespace {

struct EmbedFunction : torch::autograd::Function<EmbedFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& token_weight,
                        const std::optional<Tensor>& position_weight, const Tensor& tokens) {
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor index = tokens.contiguous();
    const std::int64_t batch = index.size(0), length = index.size(1);
    TWOBW_ASSERT(!position_weight || length <= position_weight->size(0), "{} tokens for {} positions", length,
                 position_weight->size(0));
    Tensor out = at::empty({batch, length, token_weight.size(1)}, token_weight.options());
    with_type_of(out, [&]<typename T>(T) {
      kernels::embed_forward<T>(data_of<T>(token_weight),
                                position_weight ? data_of<T>(*position_weight) : nullptr,
                                index.const_data_ptr<std::int64_t>(), data_of<T>(out), batch, length,
                                width_of(out), current_stream());
    });
    context->save_for_backward({token_weight, position_weight.value_or(Tensor()), index});
    return out;
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const auto saved = context->get_saved_variables();
    const Tensor &token_weight = saved[0], &index = saved[2];
    const Tensor grad_out = grads[0].contiguous();
    const Tensor grad_tokens = gradient_of(token_weight);
    const Tensor grad_positions = saved[1].defined() ? gradient_of(saved[1]) : Tensor();
    with_type_of(grad_out, [&]<typename T>(T) {
      kernels::embed_backward<T>(
          {.grad_out = data_of<T>(grad_out),
           .tokens = index.const_data_ptr<std::int64_t>(),
           .grad_tokens = data_of<float>(grad_tokens),
           .grad_positions = grad_positions.defined() ? data_of<float>(grad_positions) : nullptr,
           .batch = index.size(0),
           .length = index.size(1),
           .vocabulary = token_weight.size(0),
           .width = width_of(grad_out),
           .deterministic = device::gpu_context(current_stream()).deterministic},
          current_stream());
    });
    return {Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor embed(const Tensor& token_weight, const Tensor& position_weight, const Tensor& tokens) {
  return EmbedFunction::apply(token_weight, given(position_weight), tokens);
}

Tensor rotated(const Tensor& qkv, const Heads& heads, const Tensor& angles, int sign) {
  const Tensor x = qkv.contiguous();
  TWOBW_ASSERT(x.size(1) <= angles.size(0) && x.size(2) == std::int64_t{heads.all()} * heads.size,
               "angles of {} places and heads of {} for {} tokens of {}", angles.size(0), heads.size,
               x.size(1), x.size(2));
  Tensor out = at::empty(x.sizes(), x.options());
  with_type_of(x, [&]<typename T>(T) {
    const kernels::Rotary<T> rotary{.x = data_of<T>(x),
                                    .out = data_of<T>(out),
                                    .table = data_of<float>(angles),
                                    .batch = x.size(0),
                                    .length = x.size(1),
                                    .heads = heads.queries,
                                    .kv_heads = heads.keys,
                                    .head = heads.size};
    if (sign > 0)
      kernels::rotary_forward(rotary, current_stream());
    else
      kernels::rotary_backward(rotary, current_stream());
  });
  return out;
}

}  // namespace twobw::models::ops::cuda
