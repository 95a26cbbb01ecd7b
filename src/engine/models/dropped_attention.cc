#include "engine/models/dropped_attention.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "engine/models/dropout_kernels.h"
#include "engine/models/kernels.h"
#include "engine/models/ops_cuda.h"
#include "engine/models/wide.h"

namespace twobw::models::ops {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

// Of packed qkv the queries (0), keys (1) or values (2) [b, T, heads, size], as they lie there.
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
void softmax(const Tensor& scores, int heads, bool causal, const Tensor& tells, float scale) {
  const std::int64_t length = scores.size(1);
  const Tensor numbers = tells.defined() ? tells.contiguous() : Tensor();
  const std::int64_t* told = numbers.defined() ? numbers.const_data_ptr<std::int64_t>() : nullptr;
  float* data = scores.mutable_data_ptr<float>();
  at::parallel_for(0, scores.size(0) * length, 1 + kGrain / length,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t row = begin; row < end; ++row) {
                       const std::int64_t sequence = row / length / heads, place = row % length;
                       std::int64_t first = 0, last = causal ? place + 1 : length;
                       if (told != nullptr && causal) first = place - told[sequence * length + place];
                       if (told != nullptr && !causal)
                         last = std::clamp<std::int64_t>(told[sequence], 1, length);
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

std::pair<Tensor, Tensor> attend(const Tensor& packed, int heads, bool causal, const Tensor& tells,
                                 const DropoutMask& mask) {
  const Tensor weights =
      at::bmm(matrices_of(part_of(packed, heads, 0)), transposed_of(part_of(packed, heads, 1)));
  softmax(weights, heads, causal, tells, scale_of(packed, heads));
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
                        const std::optional<Tensor>& tells, const DropoutMask& mask) {
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor packed = qkv.contiguous();
    const auto [mixed, weights] =
        packed.is_cuda()
            ? cuda::attend(packed, static_cast<int>(heads), causal, tells.value_or(Tensor()), mask)
            : attend(widened(packed), static_cast<int>(heads), causal, tells.value_or(Tensor()), mask);
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

}  // namespace

Tensor dropped_attention(const Tensor& qkv, int heads, bool causal, const Tensor& tells,
                         const DropoutMask& mask) {
  return DroppedAttentionFunction::apply(qkv, heads, causal,
                                         tells.defined() ? std::optional(tells) : std::nullopt, mask);
}

}  // namespace twobw::models::ops
