// Attention to both sides, with padding left out.
#include <cmath>
#include <optional>

#include "engine/models/dropped_attention.h"
#include "engine/models/ops.h"
#include "engine/models/ops_cuda.h"
#include "engine/models/padding.h"

namespace twobw::models::ops {

using at::Tensor;

Tensor full_attention(const Tensor& qkv, int heads, const Tensor& lengths, double p,
                      const MicrobatchContext& pass, int site) {
  if (p != 0.0 && pass.training)
    return dropped_attention(qkv, heads, /*causal=*/false, lengths, DropoutMask::of(pass, p, site));
  const std::int64_t b = qkv.size(0), length = qkv.size(1), width = qkv.size(2) / 3;
  if (qkv.is_cuda()) {
    const int size = static_cast<int>(width) / heads;
    return cuda::full_attention(qkv, {.queries = heads, .keys = heads, .size = size}, lengths);
  }
  const Tensor split = qkv.view({b, length, 3, heads, width / heads}).permute({2, 0, 3, 1, 4});
  const Tensor q = split[0], k = split[1], v = split[2];
  std::optional<Tensor> mask;
  if (lengths.defined()) {
    const Tensor padding = padding_of(lengths, length);
    mask = at::zeros(padding.sizes(), q.options()).masked_fill_(padding, -INFINITY);
  }
  const Tensor mixed = at::scaled_dot_product_attention(q, k, v, mask);
  return mixed.transpose(1, 2).reshape({b, length, width});
}

}  // namespace twobw::models::ops
