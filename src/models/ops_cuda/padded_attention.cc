// By LibTorch's memory-efficient attention, which adds a mask to the scores, here of one row a sequence; its
// flash attention takes none.
#include "models/ops_cuda/padded_attention.h"

#include <ATen/ops/_scaled_dot_product_efficient_attention.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention_backward.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "device/gpu.h"
#include "models/ops_cuda/common.h"
#include "models/ops_cuda/packed_heads.h"
#include "models/padding.h"

namespace twobw::models::ops::cuda {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

constexpr std::int64_t kMaskMultiple = 16;  // rows of a mask begin at multiples

// What is added to the scores [b, heads, T, T]: a row a sequence.
Tensor mask_of(const Tensor& lengths, std::int64_t heads, std::int64_t places,
               const at::TensorOptions& options) {
  const std::int64_t room = (places + kMaskMultiple - 1) / kMaskMultiple * kMaskMultiple;
  const Tensor padding = padding_of(lengths, room);
  return at::zeros(padding.sizes(), options)
      .masked_fill_(padding, -INFINITY)
      .narrow(3, 0, places)
      .expand({lengths.size(0), heads, places, places});
}

struct PaddedAttentionFunction : torch::autograd::Function<PaddedAttentionFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& qkv, const Tensor& lengths,
                        std::int64_t queries, bool needs_gradient) {
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor packed = qkv.contiguous();
    const auto [q, k, v] = split_heads(packed, heads_of(packed, queries));
    if (device::gpu_context(current_stream()).deterministic) be_deterministic();
    const Tensor mask = mask_of(lengths, queries, packed.size(1), packed.options());
    const auto [mixed, logsumexp, seed, offset] = at::_scaled_dot_product_efficient_attention(
        q, k, v, mask, /*compute_log_sumexp=*/needs_gradient, /*dropout_p=*/0.0, /*is_causal=*/false);
    context->save_for_backward({packed, mask, mixed, logsumexp, seed, offset});
    context->saved_data["queries"] = queries;
    return join_heads(mixed);
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto saved = context->get_saved_variables();
    const Tensor &packed = saved[0], &mask = saved[1], &mixed = saved[2], &logsumexp = saved[3],
                 &seed = saved[4], &offset = saved[5];
    const Heads heads = heads_of(packed, context->saved_data["queries"].toInt());
    const auto [q, k, v] = split_heads(packed, heads);
    const Tensor grad_mixed = grads[0]
                                  .contiguous()
                                  .view({packed.size(0), packed.size(1), heads.queries, heads.size})
                                  .transpose(1, 2);
    const auto [grad_q, grad_k, grad_v, grad_mask] = at::_scaled_dot_product_efficient_attention_backward(
        grad_mixed, q, k, v, mask, mixed, logsumexp, seed, offset, /*dropout_p=*/0.0,
        /*grad_input_mask=*/{true, true, true, false}, /*is_causal=*/false);
    return {pack_gradients(grad_q, grad_k, grad_v), Tensor(), Tensor(), Tensor()};
  }

  static Heads heads_of(const Tensor& packed, std::int64_t queries) {
    const int heads = static_cast<int>(queries);
    return {.queries = heads, .keys = heads, .size = static_cast<int>(packed.size(2)) / 3 / heads};
  }
};

}  // namespace

Tensor padded_attention(const Tensor& qkv, const Heads& heads, const Tensor& lengths) {
  return PaddedAttentionFunction::apply(qkv, lengths, heads.queries, wants_gradient({qkv}));
}

}  // namespace twobw::models::ops::cuda
