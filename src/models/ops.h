// Differentiable building blocks of the layers. Where a parameter's .grad() exists, its gradient is
// accumulated there in place, without a temporary; autograd then sees no gradient for it.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "models/layer.h"

namespace twobw::models::ops {

// x [.., in] with weight [out, in] and bias [out] (or undefined) -> [.., out].
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// Rows of weight [n, w] chosen by index [b, T] -> [b, T, w].
at::Tensor embedding(const at::Tensor& weight, const at::Tensor& index);

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// GELU, tanh approximation.
at::Tensor gelu(const at::Tensor& x);

// Causal self-attention of packed qkv [b, T, 3w] -> [b, T, w]; `site` tells the masks of one layer apart.
at::Tensor causal_attention(const at::Tensor& qkv, int heads, double dropout, const Pass& pass, int site);

// x with each element zeroed with probability p and the rest divided by 1-p, while training.
at::Tensor dropout(const at::Tensor& x, double p, const Pass& pass, int site);

// Mean cross-entropy of hidden [b, T, w] times weight [V, w] against targets [b, T]. The full logits
// live only inside: their gradient replaces them. The gradient is scaled by loss_scale.
at::Tensor head_loss(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& targets,
                     double loss_scale);

}  // namespace twobw::models::ops
