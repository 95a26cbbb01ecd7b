// Attention by LibTorch's kernels: in 16 bits cuDNN's, or flash attention where results must be the same bits
// every time or heads are wide; else, where neither has a kernel, as before Ampere, products and a softmax.
// All of them let neighbouring heads of queries share keys and values.
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_backward.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <tuple>

#include "engine/device/device.h"
#include "engine/device/gpu.h"
#include "engine/models/ops_cuda.h"
#include "engine/models/ops_cuda/common.h"
#include "engine/models/ops_cuda/masked_attention.h"
#include "engine/models/ops_cuda/packed_heads.h"

namespace twobw::models::ops::cuda {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

struct AttentionFunction : torch::autograd::Function<AttentionFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& qkv, std::int64_t queries, std::int64_t keys,
                        bool causal, bool needs_gradient) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->saved_data["queries"] = queries;
    context->saved_data["keys"] = keys;
    const Heads heads = heads_of(context, qkv);
    const Tensor packed = qkv.contiguous();
    const auto [q, k, v] = split_heads(packed, heads);
    const bool deterministic = device::gpu_context(current_stream()).deterministic;
    const bool cudnn = !deterministic && q.size(3) <= 128 && q.size(2) > 1;  // cuDNN has none for one token
    if (deterministic) device::compute_deterministically();  // LibTorch asks its global setting
    Tensor mixed, logsumexp, seed, offset;
    if (cudnn) {
      auto result = at::_scaled_dot_product_cudnn_attention(q, k, v, /*attn_bias=*/std::nullopt,
                                                            /*compute_log_sumexp=*/needs_gradient,
                                                            /*dropout_p=*/0.0, causal);
      std::tie(mixed, logsumexp, seed, offset) =
          std::tie(std::get<0>(result), std::get<1>(result), std::get<6>(result), std::get<7>(result));
    } else {
      auto result = at::_scaled_dot_product_flash_attention(q, k, v, /*dropout_p=*/0.0, causal);
      std::tie(mixed, logsumexp, seed, offset) =
          std::tie(std::get<0>(result), std::get<1>(result), std::get<6>(result), std::get<7>(result));
    }
    context->save_for_backward({packed, mixed, logsumexp, seed, offset});
    context->saved_data["cudnn"] = cudnn;
    context->saved_data["causal"] = causal;
    return join_heads(mixed);
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto saved = context->get_saved_variables();
    const Tensor &packed = saved[0], &mixed = saved[1], &logsumexp = saved[2], &seed = saved[3],
                 &offset = saved[4];
    const Heads heads = heads_of(context, packed);
    const std::int64_t b = packed.size(0), length = packed.size(1);
    const bool causal = context->saved_data["causal"].toBool();
    const auto [q, k, v] = split_heads(packed, heads);
    const Tensor grad_mixed =
        grads[0].contiguous().view({b, length, heads.queries, heads.size}).transpose(1, 2);
    const auto [grad_q, grad_k, grad_v] = context->saved_data["cudnn"].toBool()
                                              ? at::_scaled_dot_product_cudnn_attention_backward(
                                                    grad_mixed, q, k, v, mixed, logsumexp, seed, offset,
                                                    /*attn_bias=*/Tensor(), /*cum_seq_q=*/Tensor(),
                                                    /*cum_seq_k=*/Tensor(), length, length,
                                                    /*dropout_p=*/0.0, causal)
                                              : at::_scaled_dot_product_flash_attention_backward(
                                                    grad_mixed, q, k, v, mixed, logsumexp,
                                                    /*cum_seq_q=*/Tensor(), /*cum_seq_k=*/Tensor(), length,
                                                    length, /*dropout_p=*/0.0, causal, seed, offset);
    return {pack_gradients(grad_q, grad_k, grad_v), Tensor(), Tensor(), Tensor(), Tensor()};
  }

  static Heads heads_of(AutogradContext* context, const Tensor& packed) {
    Heads heads{.queries = static_cast<int>(context->saved_data["queries"].toInt()),
                .keys = static_cast<int>(context->saved_data["keys"].toInt())};
    heads.size = static_cast<int>(packed.size(2)) / heads.all();
    return heads;
  }
};

// Whether the library has a fused kernel.
bool is_fused(const Tensor& qkv, const Heads& heads) {
  constexpr int kAmpere = 8;
  return is_narrow(qkv) && heads.size % 8 == 0 && heads.size <= 256 &&
         at::cuda::getCurrentDeviceProperties()->major >= kAmpere;
}

Tensor fused(const Tensor& qkv, const Heads& heads, bool causal) {
  return AttentionFunction::apply(qkv, heads.queries, heads.keys, causal, wants_gradient({qkv}));
}

// Products and a softmax; `mask` (or nothing) is added to the scores.
Tensor plain(const Tensor& qkv, const Heads& heads, const std::optional<Tensor>& mask, bool causal) {
  const auto [q, k, v] = split_heads(qkv, heads);
  return join_heads(std::get<0>(at::_scaled_dot_product_attention_math(
      q, k, v, mask, 0.0, causal, {}, {}, /*enable_gqa=*/heads.keys != heads.queries)));
}

// `tells` which keys are hidden (masked_attention.h).
Tensor masked(const Tensor& qkv, const Heads& heads, const Tensor& tells) {
  if (is_fused(qkv, heads)) return masked_attention(qkv, heads, tells);
  return plain(qkv, heads, mask_of(tells, heads.queries, qkv.size(1), qkv.options()), false);
}

Tensor unmasked(const Tensor& qkv, const Heads& heads, bool causal) {
  return is_fused(qkv, heads) ? fused(qkv, heads, causal) : plain(qkv, heads, {}, causal);
}

}  // namespace

Tensor causal_attention(const Tensor& qkv, const Heads& heads, const Tensor& positions) {
  return positions.defined() ? masked(qkv, heads, positions) : unmasked(qkv, heads, true);
}

Tensor full_attention(const Tensor& qkv, const Heads& heads, const Tensor& lengths) {
  return lengths.defined() ? masked(qkv, heads, lengths) : unmasked(qkv, heads, false);
}

}  // namespace twobw::models::ops::cuda
