// Attention to both sides, with padding left out.
#include <cmath>
#include <optional>

#include "models/ops.h"
#include "models/ops_cuda.h"
#include "models/padding.h"

namespace twobw::models::ops {

using at::Tensor;

Tensor full_attention(const Tensor& qkv, int heads, const Tensor& lengths, double p, const Pass& pass,
                      int site) {
  const std::int64_t b = qkv.size(0), length = qkv.size(1), width = qkv.size(2) / 3;
  const bool drops = p != 0.0 && pass.training;
  if (qkv.is_cuda() && !drops) {
    const int size = static_cast<int>(width) / heads;
    return cuda::full_attention(qkv, {.queries = heads, .keys = heads, .size = size}, lengths);
  }
  const Tensor split = qkv.view({b, length, 3, heads, width / heads}).permute({2, 0, 3, 1, 4});
  const Tensor q = split[0], k = split[1], v = split[2];
  const Tensor padding = lengths.defined() ? padding_of(lengths, length) : Tensor();
  Tensor mixed;
  if (drops) {  // no fused kernel drops by a mask that is given
    Tensor scores = at::matmul(q, k.transpose(-2, -1)) / std::sqrt(static_cast<double>(width / heads));
    if (padding.defined()) scores = scores.masked_fill(padding, -INFINITY);
    mixed = at::matmul(ops::dropout(at::softmax(scores, -1), p, pass, site), v);
  } else {
    std::optional<Tensor> mask;
    if (padding.defined()) mask = at::zeros(padding.sizes(), q.options()).masked_fill_(padding, -INFINITY);
    mixed = at::scaled_dot_product_attention(q, k, v, mask);
  }
  return mixed.transpose(1, 2).reshape({b, length, width});
}

}  // namespace twobw::models::ops
