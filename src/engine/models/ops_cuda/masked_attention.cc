// By LibTorch's memory-efficient attention, which adds a mask to the scores; its flash attention takes none.
#include "engine/models/ops_cuda/masked_attention.h"

#include <ATen/ops/_scaled_dot_product_efficient_attention.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention_backward.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "engine/device/device.h"
#include "engine/device/gpu.h"
#include "engine/models/documents.h"
#include "engine/models/ops_cuda/common.h"
#include "engine/models/ops_cuda/packed_heads.h"
#include "engine/models/padding.h"

namespace twobw::models::ops::cuda {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

constexpr std::int64_t kMaskMultiple = 16;  // rows of a mask begin at multiples

// One row a sequence, or one a query.
bool is_one_row(const Tensor& tells) {
  return tells.dim() == 1;
}

// The kernel wants as many heads of keys and values as of queries: [b, keys, T, size] for all of a group.
Tensor for_groups(const Tensor& x, const Heads& heads) {
  const std::int64_t group = heads.queries / heads.keys;
  if (group == 1) return x;
  return x.unsqueeze(2).expand({-1, -1, group, -1, -1}).flatten(1, 2);
}
Tensor sum_of_groups(const Tensor& grad, const Heads& heads) {
  const std::int64_t group = heads.queries / heads.keys;
  return group == 1 ? grad : grad.unflatten(1, {heads.keys, group}).sum(2);
}

struct MaskedAttentionFunction : torch::autograd::Function<MaskedAttentionFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& qkv, const Tensor& tells,
                        std::int64_t queries, std::int64_t keys, bool needs_gradient) {
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor packed = qkv.contiguous();
    const Heads heads = heads_of(packed, queries, keys);
    const auto [q, k, v] = split_heads(packed, heads);
    if (device::gpu_context(current_stream()).deterministic)
      device::compute_deterministically();  // LibTorch asks its global setting
    const Tensor mask = mask_of(tells, queries, packed.size(1), packed.options());
    const auto [mixed, logsumexp, seed, offset] = at::_scaled_dot_product_efficient_attention(
        q, for_groups(k, heads), for_groups(v, heads), mask, /*compute_log_sumexp=*/needs_gradient,
        /*dropout_p=*/0.0, /*is_causal=*/false);
    // A mask of many rows is made again.
    context->save_for_backward(
        {packed, tells, is_one_row(tells) ? mask : Tensor(), mixed, logsumexp, seed, offset});
    context->saved_data["queries"] = queries;
    context->saved_data["keys"] = keys;
    return join_heads(mixed);
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto saved = context->get_saved_variables();
    const Tensor &packed = saved[0], &tells = saved[1], &kept = saved[2], &mixed = saved[3],
                 &logsumexp = saved[4], &seed = saved[5], &offset = saved[6];
    const Heads heads =
        heads_of(packed, context->saved_data["queries"].toInt(), context->saved_data["keys"].toInt());
    const auto [q, k, v] = split_heads(packed, heads);
    const Tensor grad_mixed = grads[0]
                                  .contiguous()
                                  .view({packed.size(0), packed.size(1), heads.queries, heads.size})
                                  .transpose(1, 2);
    const Tensor mask =
        kept.defined() ? kept : mask_of(tells, heads.queries, packed.size(1), packed.options());
    const auto [grad_q, grad_k, grad_v, grad_mask] = at::_scaled_dot_product_efficient_attention_backward(
        grad_mixed, q, for_groups(k, heads), for_groups(v, heads), mask, mixed, logsumexp, seed, offset,
        /*dropout_p=*/0.0, /*grad_input_mask=*/{true, true, true, false}, /*is_causal=*/false);
    return {pack_gradients(grad_q, sum_of_groups(grad_k, heads), sum_of_groups(grad_v, heads)), Tensor(),
            Tensor(), Tensor(), Tensor()};
  }

  static Heads heads_of(const Tensor& packed, std::int64_t queries, std::int64_t keys) {
    Heads heads{.queries = static_cast<int>(queries), .keys = static_cast<int>(keys)};
    heads.size = static_cast<int>(packed.size(2)) / heads.all();
    return heads;
  }
};

}  // namespace

Tensor mask_of(const Tensor& tells, std::int64_t heads, std::int64_t places,
               const at::TensorOptions& options) {
  const std::int64_t b = tells.size(0);
  const std::int64_t room = (places + kMaskMultiple - 1) / kMaskMultiple * kMaskMultiple;
  const Tensor hidden = is_one_row(tells) ? padding_of(tells, places) : hidden_keys(tells);
  return at::zeros({b, 1, hidden.size(2), room}, options)
      .narrow(3, 0, places)
      .masked_fill_(hidden, -INFINITY)
      .expand({b, heads, places, places});
}

Tensor masked_attention(const Tensor& qkv, const Heads& heads, const Tensor& tells) {
  return MaskedAttentionFunction::apply(qkv, tells, heads.queries, heads.keys, wants_gradient({qkv}));
}

}  // namespace twobw::models::ops::cuda
