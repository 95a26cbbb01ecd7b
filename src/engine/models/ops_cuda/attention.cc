// Attention by LibTorch's kernels. In 16 bits: cuDNN's; flash attention if results must be reproducible or
// heads are wide; memory-efficient attention with a mask. Else, and before Ampere, products and a softmax.
// All of them let adjacent heads of queries share keys and values.
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_backward.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <cmath>
#include <optional>
#include <tuple>

#include "engine/device/device.h"
#include "engine/device/gpu.h"
#include "engine/models/masks.h"
#include "engine/models/ops_cuda.h"
#include "engine/models/ops_cuda/common.h"

namespace twobw::models::ops::cuda {
namespace {

// q, k and v [b, heads, T, size] of packed qkv, in place.
std::array<Tensor, 3> split_heads(const Tensor& qkv, const Heads& heads) {
  const Tensor apart = qkv.view({qkv.size(0), qkv.size(1), heads.all(), heads.size}).transpose(1, 2);
  return {apart.narrow(1, 0, heads.queries), apart.narrow(1, heads.queries, heads.keys),
          apart.narrow(1, heads.queries + heads.keys, heads.keys)};
}

// [b, heads, T, size] -> [b, T, heads size]; no copy if the heads of a token are adjacent.
Tensor join_heads(const Tensor& x) {
  return x.transpose(1, 2).contiguous().view({x.size(0), x.size(2), x.size(1) * x.size(3)});
}

// The gradient of packed qkv from those of q, k and v.
Tensor pack_gradients(const Tensor& grad_q, const Tensor& grad_k, const Tensor& grad_v) {
  const Tensor q = join_heads(grad_q), k = join_heads(grad_k), v = join_heads(grad_v);
  Tensor packed = at::empty({q.size(0), q.size(1), q.size(2) + k.size(2) + v.size(2)}, q.options());
  with_type_of(packed, [&]<typename T>(T) {
    kernels::pack_three<T>(data_of<T>(q), data_of<T>(k), data_of<T>(v), data_of<T>(packed),
                           q.size(0) * q.size(1), width_of(q), width_of(k), current_stream());
  });
  return packed;
}

constexpr std::int64_t kMaskMultiple = 16;  // rows of a mask begin at multiples

// One row a sequence, or one a query.
bool is_one_row(const Tensor& hidden_by) {
  return hidden_by.dim() == 1;
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

// The bias of the scores [b, heads, T, T]. `hidden_by`: lengths [b] without the
// padding, in both directions; or positions [b, T] in documents, within which attention is causal.
Tensor mask_of(const Tensor& hidden_by, std::int64_t heads, std::int64_t places,
               const at::TensorOptions& options) {
  const std::int64_t b = hidden_by.size(0);
  const std::int64_t room = (places + kMaskMultiple - 1) / kMaskMultiple * kMaskMultiple;
  const Tensor hidden = is_one_row(hidden_by) ? padding_of(hidden_by, places) : hidden_keys(hidden_by);
  return at::zeros({b, 1, hidden.size(2), room}, options)
      .narrow(3, 0, places)
      .masked_fill_(hidden, -INFINITY)
      .expand({b, heads, places, places});
}

enum class Kernel : std::int64_t { Cudnn, Flash, Efficient };

// Efficient attention adds a bias to the scores, which hides keys; the others have none.
Kernel kernel_for(const Tensor& queries, bool hides, bool deterministic) {
  if (hides) return Kernel::Efficient;
  const bool fits = queries.size(3) <= 128 && queries.size(2) > 1;  // cuDNN has none for one token
  return !deterministic && fits ? Kernel::Cudnn : Kernel::Flash;
}

struct AttentionFunction : torch::autograd::Function<AttentionFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& qkv, const std::optional<Tensor>& hidden_by,
                        std::int64_t queries, std::int64_t keys, bool causal, bool needs_gradient) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->saved_data["queries"] = queries;
    context->saved_data["keys"] = keys;
    const Tensor packed = qkv.contiguous();
    const Heads heads = heads_of(context, packed);
    const auto [q, k, v] = split_heads(packed, heads);
    const bool deterministic = device::gpu_context(current_stream()).deterministic;
    const Kernel kernel = kernel_for(q, hidden_by.has_value(), deterministic);
    if (deterministic) device::compute_deterministically();  // LibTorch asks its global setting
    Tensor mixed, logsumexp, seed, offset, mask;
    if (kernel == Kernel::Efficient) {
      mask = mask_of(*hidden_by, queries, packed.size(1), packed.options());
      std::tie(mixed, logsumexp, seed, offset) = at::_scaled_dot_product_efficient_attention(
          q, for_groups(k, heads), for_groups(v, heads), mask, /*compute_log_sumexp=*/needs_gradient,
          /*dropout_p=*/0.0, /*is_causal=*/false);
      if (!is_one_row(*hidden_by)) mask = Tensor();  // a mask of many rows is made again
    } else if (kernel == Kernel::Cudnn) {
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
    context->save_for_backward({packed, mixed, logsumexp, seed, offset, hidden_by.value_or(Tensor()), mask});
    context->saved_data["kernel"] = static_cast<std::int64_t>(kernel);
    context->saved_data["causal"] = causal;
    return join_heads(mixed);
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto saved = context->get_saved_variables();
    const Tensor &packed = saved[0], &mixed = saved[1], &logsumexp = saved[2], &seed = saved[3],
                 &offset = saved[4], &hidden_by = saved[5], &kept = saved[6];
    const Heads heads = heads_of(context, packed);
    const std::int64_t b = packed.size(0), length = packed.size(1);
    const auto kernel = static_cast<Kernel>(context->saved_data["kernel"].toInt());
    const bool causal = context->saved_data["causal"].toBool();
    const auto [q, k, v] = split_heads(packed, heads);
    const Tensor grad_mixed =
        grads[0].contiguous().view({b, length, heads.queries, heads.size}).transpose(1, 2);
    Tensor grad_q, grad_k, grad_v;
    if (kernel == Kernel::Efficient) {
      const Tensor mask = kept.defined() ? kept : mask_of(hidden_by, heads.queries, length, packed.options());
      std::tie(grad_q, grad_k, grad_v, std::ignore) = at::_scaled_dot_product_efficient_attention_backward(
          grad_mixed, q, for_groups(k, heads), for_groups(v, heads), mask, mixed, logsumexp, seed, offset,
          /*dropout_p=*/0.0, /*grad_input_mask=*/{true, true, true, false}, /*is_causal=*/false);
      grad_k = sum_of_groups(grad_k, heads);
      grad_v = sum_of_groups(grad_v, heads);
    } else if (kernel == Kernel::Cudnn) {
      std::tie(grad_q, grad_k, grad_v) = at::_scaled_dot_product_cudnn_attention_backward(
          grad_mixed, q, k, v, mixed, logsumexp, seed, offset, /*attn_bias=*/Tensor(), /*cum_seq_q=*/Tensor(),
          /*cum_seq_k=*/Tensor(), length, length, /*dropout_p=*/0.0, causal);
    } else {
      std::tie(grad_q, grad_k, grad_v) = at::_scaled_dot_product_flash_attention_backward(
          grad_mixed, q, k, v, mixed, logsumexp, /*cum_seq_q=*/Tensor(), /*cum_seq_k=*/Tensor(), length,
          length,
          /*dropout_p=*/0.0, causal, seed, offset);
    }
    return {pack_gradients(grad_q, grad_k, grad_v), Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
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

// Products and a softmax; `mask` (or nothing) is added to the scores.
Tensor plain(const Tensor& qkv, const Heads& heads, const std::optional<Tensor>& mask, bool causal) {
  const auto [q, k, v] = split_heads(qkv, heads);
  return join_heads(std::get<0>(at::_scaled_dot_product_attention_math(
      q, k, v, mask, 0.0, causal, {}, {}, /*enable_gqa=*/heads.keys != heads.queries)));
}

}  // namespace

Tensor attention(const Tensor& qkv, const Heads& heads, const Tensor& hidden, bool causal) {
  const bool is_causal = causal && !hidden.defined();  // a mask of documents hides later tokens too
  if (is_fused(qkv, heads))
    return AttentionFunction::apply(qkv, given(hidden), heads.queries, heads.keys, is_causal,
                                    wants_gradient({qkv}));
  if (!hidden.defined()) return plain(qkv, heads, {}, is_causal);
  return plain(qkv, heads, mask_of(hidden, heads.queries, qkv.size(1), qkv.options()), is_causal);
}

}  // namespace twobw::models::ops::cuda
