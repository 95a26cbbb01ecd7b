// Self-attention on CPUs; tensors on a GPU go to ops_cuda/attention.cc.
#include <ATen/Parallel.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "engine/models/kernels.h"
#include "engine/models/masks.h"
#include "engine/models/ops.h"
#include "engine/models/ops_cuda.h"

namespace twobw::models::ops {
namespace {

// Grouped-query attention by LibTorch's flash attention, once for each query of a group, so that keys and
// values are never copied; and once for each document, so that its numbers do not depend on the others.

// Views of packed queries, keys and values [b, T, all size], or of a tensor of that shape.
class PackedHeads {
 public:
  PackedHeads(const Tensor& qkv, const Heads& heads)
      : heads_(heads), apart_(qkv.view({qkv.size(0), qkv.size(1), heads.all(), heads.size})) {}

  // [b, keys, T, size]: query `which` of every group.
  Tensor queries(std::int64_t which) const {
    return of_groups(apart_.narrow(2, 0, heads_.queries), heads_, which);
  }
  Tensor keys() const { return apart_.narrow(2, heads_.queries, heads_.keys).transpose(1, 2); }
  Tensor values() const {
    return apart_.narrow(2, heads_.queries + heads_.keys, heads_.keys).transpose(1, 2);
  }

  // Selects the same of x [b, T, queries, size].
  static Tensor of_groups(const Tensor& x, const Heads& heads, std::int64_t which) {
    return x.unflatten(2, {heads.keys, heads.queries / heads.keys}).select(3, which).transpose(1, 2);
  }

 private:
  Heads heads_;
  Tensor apart_;
};

struct GroupedAttentionFunction : torch::autograd::Function<GroupedAttentionFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& qkv, const std::optional<Tensor>& positions,
                        std::int64_t queries, std::int64_t keys, std::int64_t size) {
    at::AutoDispatchBelowADInplaceOrView below;
    const Heads heads = heads_of(queries, keys, size);
    const Tensor input = qkv.contiguous();
    const PackedHeads packed(input, heads);
    const Tensor mixed = at::empty({input.size(0), input.size(1), queries, size}, input.options());
    std::vector<Tensor> saved = {input, mixed, positions.value_or(Tensor())};
    for (const Stretch& stretch : stretches_of(saved[2], input.size(0), input.size(1))) {
      const Tensor k = stretch.of(packed.keys()), v = stretch.of(packed.values());
      for (std::int64_t which = 0; which < queries / keys; ++which) {
        const auto [out, logsumexp] = at::_scaled_dot_product_flash_attention_for_cpu(
            stretch.of(packed.queries(which)), k, v, /*dropout_p=*/0.0, /*is_causal=*/true);
        stretch.of(PackedHeads::of_groups(mixed, heads, which)).copy_(out);
        saved.push_back(logsumexp);
      }
    }
    context->save_for_backward(saved);
    context->saved_data["queries"] = queries;
    context->saved_data["keys"] = keys;
    return mixed.view({input.size(0), input.size(1), queries * size});
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto saved = context->get_saved_variables();
    const Tensor &input = saved[0], &mixed = saved[1];
    const Heads heads =
        heads_of(context->saved_data["queries"].toInt(), context->saved_data["keys"].toInt(), mixed.size(3));
    const Tensor grad_mixed = grads[0].contiguous().view(mixed.sizes());
    // Single precision: the gradients of a key come from several queries.
    const Tensor grad_qkv = at::empty(input.sizes(), input.options().dtype(at::kFloat));
    const PackedHeads packed(input, heads), gradient(grad_qkv, heads);
    auto logsumexp = saved.begin() + 3;
    for (const Stretch& stretch : stretches_of(saved[2], input.size(0), input.size(1))) {
      const Tensor k = stretch.of(packed.keys()), v = stretch.of(packed.values());
      for (std::int64_t which = 0; which < heads.queries / heads.keys; ++which, ++logsumexp) {
        const auto [grad_queries, grad_keys, grad_values] =
            at::_scaled_dot_product_flash_attention_for_cpu_backward(
                stretch.of(PackedHeads::of_groups(grad_mixed, heads, which)),
                stretch.of(packed.queries(which)), k, v,
                stretch.of(PackedHeads::of_groups(mixed, heads, which)), *logsumexp,
                /*dropout_p=*/0.0, /*is_causal=*/true);
        stretch.of(gradient.queries(which)).copy_(grad_queries);
        add_or_set(stretch.of(gradient.keys()), grad_keys, which > 0);
        add_or_set(stretch.of(gradient.values()), grad_values, which > 0);
      }
    }
    return {grad_qkv.to(input.scalar_type()), Tensor(), Tensor(), Tensor(), Tensor()};
  }

  static Heads heads_of(std::int64_t queries, std::int64_t keys, std::int64_t size) {
    return {
        .queries = static_cast<int>(queries), .keys = static_cast<int>(keys), .size = static_cast<int>(size)};
  }

  static void add_or_set(const Tensor& to, const Tensor& x, bool add) {
    if (add)
      to.add_(x);
    else
      to.copy_(x);
  }
};

// View of the queries (0), keys (1) or values (2) [b, T, heads, size] of packed qkv.
Tensor part_of(const Tensor& packed, int heads, int which) {
  return packed.view({packed.size(0), packed.size(1), 3, heads, packed.size(2) / 3 / heads}).select(2, which);
}

// [b, T, heads, size] as matrices [b heads, T, size], or transposed, of which products then need no copy.
Tensor matrices_of(const Tensor& x) {
  return x.transpose(1, 2).reshape({x.size(0) * x.size(2), x.size(1), x.size(3)});
}
Tensor transposed_of(const Tensor& x) {
  return x.permute({0, 2, 3, 1}).reshape({x.size(0) * x.size(2), x.size(3), x.size(1)});
}
// And back.
Tensor from_matrices(const Tensor& matrices, int heads) {
  return matrices.unflatten(0, {-1, heads}).transpose(1, 2);
}
Tensor from_transposed(const Tensor& matrices, int heads) {
  return matrices.unflatten(0, {-1, heads}).permute({0, 3, 1, 2});
}

float scale_of(const Tensor& packed, int heads) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(packed.size(2) / 3 / heads)));
}

// Scores [b heads, T, T] become weights.
void softmax(const Tensor& scores, int heads, bool causal, const Tensor& hidden_by, float scale) {
  const std::int64_t length = scores.size(1);
  const Tensor numbers = hidden_by.defined() ? hidden_by.contiguous() : Tensor();
  const std::int64_t* limits = numbers.defined() ? numbers.const_data_ptr<std::int64_t>() : nullptr;
  float* data = scores.mutable_data_ptr<float>();
  at::parallel_for(0, scores.size(0) * length, 1 + kGrain / length,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t row = begin; row < end; ++row) {
                       const std::int64_t sequence = row / length / heads, place = row % length;
                       std::int64_t first = 0, last = causal ? place + 1 : length;
                       if (limits != nullptr && causal) first = place - limits[sequence * length + place];
                       if (limits != nullptr && !causal)
                         last = std::clamp<std::int64_t>(limits[sequence], 1, length);
                       float* of_query = data + row * length;
                       std::fill(of_query, of_query + first, 0.0f);
                       softmax_row(of_query + first, length - first, last - first, scale);
                     }
                   });
}

void softmax_backward(const Tensor& weights, const Tensor& gradient, float scale) {
  const std::int64_t length = weights.size(-1);
  const float* from = weights.const_data_ptr<float>();
  float* data = gradient.mutable_data_ptr<float>();
  at::parallel_for(0, weights.numel() / length, 1 + kGrain / length,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t row = begin; row < end; ++row)
                       softmax_row_backward(from + row * length, data + row * length, length, scale);
                   });
}

// The mask of weights [b heads, T, T] is that of [b, heads, T, T].
Tensor drop_weights(const Tensor& weights, int heads, const DropoutMask& mask, bool in_place = false) {
  return drop(weights.unflatten(0, {-1, heads}), {}, mask, in_place).flatten(0, 1);
}

std::pair<Tensor, Tensor> attend(const Tensor& packed, int heads, bool causal, const Tensor& hidden_by,
                                 const DropoutMask& mask) {
  const Tensor weights =
      at::bmm(matrices_of(part_of(packed, heads, 0)), transposed_of(part_of(packed, heads, 1)));
  softmax(weights, heads, causal, hidden_by, scale_of(packed, heads));
  const Tensor mixed = at::bmm(drop_weights(weights, heads, mask), matrices_of(part_of(packed, heads, 2)));
  return {from_matrices(mixed, heads).reshape({packed.size(0), packed.size(1), packed.size(2) / 3}), weights};
}

Tensor attend_backward(const Tensor& packed, int heads, const Tensor& weights, const Tensor& grad_mixed,
                       const DropoutMask& mask) {
  const Tensor gradient = grad_mixed.unflatten(2, {heads, -1});
  const Tensor grad_values = at::bmm(transposed_of(gradient), drop_weights(weights, heads, mask));
  Tensor grad_scores = at::bmm(matrices_of(gradient), transposed_of(part_of(packed, heads, 2)));
  drop_weights(grad_scores, heads, mask, /*in_place=*/true);
  softmax_backward(weights, grad_scores, scale_of(packed, heads));
  const Tensor grad_queries = at::bmm(grad_scores, matrices_of(part_of(packed, heads, 1)));
  const Tensor grad_keys = at::bmm(transposed_of(part_of(packed, heads, 0)), grad_scores);
  grad_scores.reset();
  const Tensor grad_packed = at::empty_like(packed);
  part_of(grad_packed, heads, 0).copy_(from_matrices(grad_queries, heads));
  part_of(grad_packed, heads, 1).copy_(from_transposed(grad_keys, heads));
  part_of(grad_packed, heads, 2).copy_(from_transposed(grad_values, heads));
  return grad_packed;
}

struct DroppedAttentionFunction : torch::autograd::Function<DroppedAttentionFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& qkv, std::int64_t heads, bool causal,
                        const std::optional<Tensor>& hidden_by, const DropoutMask& mask) {
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor packed = qkv.contiguous();
    const auto [mixed, weights] =
        packed.is_cuda()
            ? cuda::attend(packed, static_cast<int>(heads), causal, hidden_by.value_or(Tensor()), mask)
            : attend(widened(packed), static_cast<int>(heads), causal, hidden_by.value_or(Tensor()), mask);
    context->save_for_backward({packed, weights});
    context->saved_data["heads"] = heads;
    mask.save(*context);
    return mixed.to(packed.scalar_type());
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto saved = context->get_saved_variables();
    const Tensor &packed = saved[0], &weights = saved[1];
    const int heads = static_cast<int>(context->saved_data["heads"].toInt());
    const DropoutMask mask = DropoutMask::saved(*context);
    const Tensor grad_qkv = packed.is_cuda()
                                ? cuda::attend_backward(packed, heads, weights, grads[0].contiguous(), mask)
                                : attend_backward(widened(packed), heads, weights, widened(grads[0]), mask);
    return {grad_qkv.to(packed.scalar_type()), Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

// Attention with dropped weights. No fused kernel takes a given mask, so the weights of all queries and keys
// are computed: scores by a product, their softmax, the mask, and a product with the values. The backward
// keeps the weights without the mask. `hidden` (or undefined): if causal, positions [b, T] in documents, else
// lengths [b] without the padding.
Tensor dropped_attention(const Tensor& qkv, int heads, bool causal, const Tensor& hidden,
                         const DropoutMask& mask) {
  return DroppedAttentionFunction::apply(qkv, heads, causal, given(hidden), mask);
}

// Heads of attention without groups: as many of keys and values as of queries.
Heads heads_of(const Tensor& qkv, int heads) {
  return {.queries = heads, .keys = heads, .size = static_cast<int>(qkv.size(2)) / 3 / heads};
}

// Attention by LibTorch; `mask` (or nothing) is added to the scores.
Tensor plain_attention(const Tensor& qkv, int heads, const std::optional<Tensor>& mask, bool causal) {
  const std::int64_t b = qkv.size(0), length = qkv.size(1), width = qkv.size(2) / 3;
  const Tensor split = qkv.view({b, length, 3, heads, width / heads}).permute({2, 0, 3, 1, 4});
  const Tensor mixed = at::scaled_dot_product_attention(split[0], split[1], split[2], mask, 0.0, causal);
  return mixed.transpose(1, 2).reshape({b, length, width});
}

}  // namespace

Tensor grouped_attention(const Tensor& qkv, const Heads& heads, const Tensor& positions) {
  if (qkv.is_cuda()) return cuda::attention(qkv, heads, positions, /*causal=*/true);
  return GroupedAttentionFunction::apply(qkv, given(positions), heads.queries, heads.keys, heads.size);
}

Tensor causal_attention(const Tensor& qkv, int heads, double p, const MicrobatchContext& pass, int site,
                        const Tensor& positions) {
  if (p != 0.0 && pass.training)
    return dropped_attention(qkv, heads, /*causal=*/true, positions, DropoutMask::of(pass, p, site));
  if (qkv.is_cuda() || positions.defined()) return grouped_attention(qkv, heads_of(qkv, heads), positions);
  return plain_attention(qkv, heads, {}, /*causal=*/true);
}

Tensor full_attention(const Tensor& qkv, int heads, const Tensor& lengths, double p,
                      const MicrobatchContext& pass, int site) {
  if (p != 0.0 && pass.training)
    return dropped_attention(qkv, heads, /*causal=*/false, lengths, DropoutMask::of(pass, p, site));
  if (qkv.is_cuda()) return cuda::attention(qkv, heads_of(qkv, heads), lengths, /*causal=*/false);
  if (!lengths.defined()) return plain_attention(qkv, heads, {}, /*causal=*/false);
  const Tensor padding = padding_of(lengths, qkv.size(1));
  const Tensor mask = at::zeros(padding.sizes(), qkv.options()).masked_fill_(padding, -INFINITY);
  return plain_attention(qkv, heads, mask, /*causal=*/false);
}

}  // namespace twobw::models::ops
