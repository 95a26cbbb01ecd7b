// Attention that drops some of its weights. No fused kernel drops by masks that are given, so the weights of
// all queries and keys are made: scores by a product, their softmax, the mask, and a product with the values.
// The weights before the mask are kept for the backward, the mask is not.
#pragma once

#include <ATen/ATen.h>

#include "engine/models/dropout.h"

namespace twobw::models::ops {

// Of packed qkv [b, T, 3w] -> [b, T, w], to tokens before or to both sides. `tells` (or undefined) which keys
// are hidden besides: where it is causal, positions [b, T] in documents; else lengths [b] of the tokens that
// are no padding, of which at least one counts.
at::Tensor dropped_attention(const at::Tensor& qkv, int heads, bool causal, const at::Tensor& tells,
                             const DropoutMask& mask);

}  // namespace twobw::models::ops
