// Causal attention by LibTorch's kernels: in bfloat16 cuDNN's, or flash attention where results must be the
// same bits every time or heads are wide; else, where neither has a kernel, products and a softmax. All of
// them let neighbouring heads of queries share keys and values.
#include <ATen/Context.h>
#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_backward.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <tuple>

#include "device/gpu.h"
#include "models/ops_cuda.h"
#include "models/ops_cuda/common.h"

namespace twobw::models::ops::cuda {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

// q, k and v [b, heads, T, size] out of packed qkv, as they lie there.
std::array<Tensor, 3> split_heads(const Tensor& qkv, const Heads& heads) {
  const Tensor apart = qkv.view({qkv.size(0), qkv.size(1), heads.all(), heads.size}).transpose(1, 2);
  return {apart.narrow(1, 0, heads.queries), apart.narrow(1, heads.queries, heads.keys),
          apart.narrow(1, heads.queries + heads.keys, heads.keys)};
}

// [b, heads, T, size] -> [b, T, heads size]; no copy where the heads of a token lie side by side.
Tensor join_heads(const Tensor& x) {
  return x.transpose(1, 2).contiguous().view({x.size(0), x.size(2), x.size(1) * x.size(3)});
}

// LibTorch's flash attention asks its global setting whether the backward may add in any order.
void be_deterministic() {
  at::Context& context = at::globalContext();
  if (context.deterministicAlgorithms()) return;
  context.setDeterministicFillUninitializedMemory(false);
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
}

struct AttentionFunction : torch::autograd::Function<AttentionFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& qkv, std::int64_t queries, std::int64_t keys,
                        bool needs_gradient) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->saved_data["queries"] = queries;
    context->saved_data["keys"] = keys;
    const Heads heads = heads_of(context, qkv);
    const Tensor packed = qkv.contiguous();
    const auto [q, k, v] = split_heads(packed, heads);
    const bool deterministic = device::gpu_context(current_stream()).deterministic;
    const bool cudnn = !deterministic && q.size(3) <= 128;
    if (deterministic) be_deterministic();
    Tensor mixed, logsumexp, seed, offset;
    if (cudnn) {
      auto result = at::_scaled_dot_product_cudnn_attention(q, k, v, /*attn_bias=*/std::nullopt,
                                                            /*compute_log_sumexp=*/needs_gradient,
                                                            /*dropout_p=*/0.0, /*is_causal=*/true);
      std::tie(mixed, logsumexp, seed, offset) =
          std::tie(std::get<0>(result), std::get<1>(result), std::get<6>(result), std::get<7>(result));
    } else {
      auto result = at::_scaled_dot_product_flash_attention(q, k, v, /*dropout_p=*/0.0, /*is_causal=*/true);
      std::tie(mixed, logsumexp, seed, offset) =
          std::tie(std::get<0>(result), std::get<1>(result), std::get<6>(result), std::get<7>(result));
    }
    context->save_for_backward({packed, mixed, logsumexp, seed, offset});
    context->saved_data["cudnn"] = cudnn;
    return join_heads(mixed);
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto saved = context->get_saved_variables();
    const Tensor &packed = saved[0], &mixed = saved[1], &logsumexp = saved[2], &seed = saved[3],
                 &offset = saved[4];
    const Heads heads = heads_of(context, packed);
    const std::int64_t b = packed.size(0), length = packed.size(1);
    const auto [q, k, v] = split_heads(packed, heads);
    const Tensor grad_mixed =
        grads[0].contiguous().view({b, length, heads.queries, heads.size}).transpose(1, 2);
    const auto [grad_q, grad_k, grad_v] =
        context->saved_data["cudnn"].toBool()
            ? at::_scaled_dot_product_cudnn_attention_backward(grad_mixed, q, k, v, mixed, logsumexp, seed,
                                                               offset,
                                                               /*attn_bias=*/Tensor(), /*cum_seq_q=*/Tensor(),
                                                               /*cum_seq_k=*/Tensor(), length, length,
                                                               /*dropout_p=*/0.0, /*is_causal=*/true)
            : at::_scaled_dot_product_flash_attention_backward(grad_mixed, q, k, v, mixed, logsumexp,
                                                               /*cum_seq_q=*/Tensor(), /*cum_seq_k=*/Tensor(),
                                                               length, length, /*dropout_p=*/0.0,
                                                               /*is_causal=*/true, seed, offset);
    const Tensor dq = join_heads(grad_q), dk = join_heads(grad_k), dv = join_heads(grad_v);
    Tensor grad_qkv = at::empty(packed.sizes(), packed.options());
    with_type_of(packed, [&]<typename T>(T) {
      kernels::pack_three<T>(data_of<T>(dq), data_of<T>(dk), data_of<T>(dv), data_of<T>(grad_qkv), b * length,
                             heads.queries * heads.size, heads.keys * heads.size, current_stream());
    });
    return {grad_qkv, Tensor(), Tensor(), Tensor()};
  }

  static Heads heads_of(AutogradContext* context, const Tensor& packed) {
    Heads heads{.queries = static_cast<int>(context->saved_data["queries"].toInt()),
                .keys = static_cast<int>(context->saved_data["keys"].toInt())};
    heads.size = static_cast<int>(packed.size(2)) / heads.all();
    return heads;
  }
};

}  // namespace

Tensor causal_attention(const Tensor& qkv, const Heads& heads) {
  if (is_bfloat16(qkv) && heads.size % 8 == 0 && heads.size <= 256)
    return AttentionFunction::apply(qkv, heads.queries, heads.keys, wants_gradient({qkv}));
  const auto [q, k, v] = split_heads(qkv, heads);
  return join_heads(std::get<0>(at::_scaled_dot_product_attention_math(
      q, k, v, {}, 0.0, /*is_causal=*/true, {}, {}, /*enable_gqa=*/heads.keys != heads.queries)));
}

}  // namespace twobw::models::ops::cuda
