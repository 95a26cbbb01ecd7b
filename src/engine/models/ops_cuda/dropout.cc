// Dropout, alone or onto a residual stream, and attention with dropped weights: products of all heads of a
// sequence at once, which read and write packed queries, keys and values in place, so that nothing is copied.
#include <cmath>

#include "engine/models/ops_cuda.h"
#include "engine/models/ops_cuda/common.h"

namespace twobw::models::ops::cuda {
namespace {

// The mask as kernels take it. Refers to its key, which must be on x's GPU.
kernels::Mask mask_on(const Tensor& x, const DropoutMask& mask) {
  TWOBW_ASSERT(mask.key_on_gpu.defined() && mask.key_on_gpu.device() == x.device(),
               "dropout on a GPU by a pass whose key is not there");
  return {.key = reinterpret_cast<const std::uint64_t*>(mask.key_on_gpu.const_data_ptr<std::int64_t>()),
          .site = mask.site,
          .rate = dropout_rate(mask.rate)};
}

// View of the matrices [heads, T, size] of one sequence's heads; every token has `parts` vectors of all heads
// side by side.
Tensor heads_of(const Tensor& sequence, int heads, int parts, int which) {
  const std::int64_t size = sequence.size(1) / parts / heads;
  return sequence.view({sequence.size(0), parts, heads, size}).select(1, which).transpose(0, 1);
}

struct Parts {
  Parts(const Tensor& packed, int heads)
      : queries(heads_of(packed, heads, 3, 0)),
        keys(heads_of(packed, heads, 3, 1)),
        values(heads_of(packed, heads, 3, 2)) {}

  Tensor queries, keys, values;
};

template <typename T>
kernels::AttentionWeights<T> attention_on(const Tensor& weights, const Tensor& packed,
                                          const DropoutMask& mask) {
  const int heads = static_cast<int>(weights.size(1));
  const auto size = static_cast<double>(packed.size(2) / 3 / heads);
  return {.weights = data_of<T>(weights),
          .mask = mask_on(weights, mask),
          .batch = weights.size(0),
          .heads = heads,
          .length = width_of(weights),
          .scale = static_cast<float>(1.0 / std::sqrt(size))};
}

}  // namespace

Tensor drop(const Tensor& x, const Tensor& residual, const DropoutMask& mask, bool in_place) {
  const Tensor from = x.contiguous(), onto = residual.defined() ? residual.contiguous() : Tensor();
  Tensor out = in_place ? from : at::empty(from.sizes(), from.options());
  with_type_of(from, [&]<typename T>(T) {
    kernels::drop<T>({.x = data_of<T>(from),
                      .residual = onto.defined() ? data_of<T>(onto) : nullptr,
                      .out = data_of<T>(out),
                      .mask = mask_on(from, mask),
                      .rows = from.numel() / from.size(-1),
                      .n1 = from.dim() > 1 ? from.size(-2) : 1,
                      .n2 = from.dim() > 2 ? from.size(-3) : 1,
                      .width = width_of(from)},
                     current_stream());
  });
  return out;
}

std::pair<Tensor, Tensor> attend(const Tensor& packed, int heads, bool causal, const Tensor& tells,
                                 const DropoutMask& mask) {
  const std::int64_t batch = packed.size(0), length = packed.size(1);
  const Tensor weights = at::empty({batch, heads, length, length}, packed.options());
  const Tensor dropped = at::empty(weights.sizes(), weights.options());
  const Tensor mixed = at::empty({batch, length, packed.size(2) / 3}, packed.options());
  const Tensor numbers = tells.defined() ? tells.contiguous() : Tensor();
  for (std::int64_t i = 0; i < batch; ++i) {
    const Parts parts(packed[i], heads);
    multiply_into(weights[i], {parts.queries}, {parts.keys, true});
  }
  with_type_of(packed, [&]<typename T>(T) {
    auto attention = attention_on<T>(weights, packed, mask);
    attention.dropped = data_of<T>(dropped);
    if (numbers.defined())
      (causal ? attention.positions : attention.lengths) = numbers.const_data_ptr<std::int64_t>();
    attention.causal = causal;
    kernels::attention_weights_forward(attention, current_stream());
  });
  for (std::int64_t i = 0; i < batch; ++i) {
    const Parts parts(packed[i], heads);
    const Tensor of_heads = dropped[i];
    multiply_into(heads_of(mixed[i], heads, 1, 0), {of_heads}, {parts.values});
  }
  return {mixed, weights};
}

Tensor attend_backward(const Tensor& packed, int heads, const Tensor& weights, const Tensor& grad_mixed,
                       const DropoutMask& mask) {
  const std::int64_t batch = packed.size(0);
  const Tensor grad_packed = at::empty(packed.sizes(), packed.options());
  // The weights that were mixed with; then the gradient of those, and of the scores.
  const Tensor matrices = at::empty(weights.sizes(), weights.options());
  with_type_of(packed, [&]<typename T>(T) {
    kernels::drop<T>({.x = data_of<T>(weights),
                      .out = data_of<T>(matrices),
                      .mask = mask_on(weights, mask),
                      .rows = weights.numel() / weights.size(3),
                      .n1 = weights.size(2),
                      .n2 = weights.size(1),
                      .width = width_of(weights)},
                     current_stream());
  });
  for (std::int64_t i = 0; i < batch; ++i) {
    const Parts parts(packed[i], heads), gradients(grad_packed[i], heads);
    const Tensor of_heads = matrices[i], gradient = heads_of(grad_mixed[i], heads, 1, 0);
    multiply_into(gradients.values, {of_heads, true}, {gradient});
    multiply_into(of_heads, {gradient}, {parts.values, true});
  }
  with_type_of(packed, [&]<typename T>(T) {
    auto attention = attention_on<T>(weights, packed, mask);
    attention.gradient = data_of<T>(matrices);
    kernels::attention_weights_backward(attention, current_stream());
  });
  for (std::int64_t i = 0; i < batch; ++i) {
    const Parts parts(packed[i], heads), gradients(grad_packed[i], heads);
    const Tensor of_heads = matrices[i];
    multiply_into(gradients.queries, {of_heads}, {parts.keys});
    multiply_into(gradients.keys, {of_heads, true}, {parts.queries});
  }
  return grad_packed;
}

}  // namespace twobw::models::ops::cuda
