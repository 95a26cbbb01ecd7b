// Differentiable operations of the layers. A parameter's gradient is accumulated in place into an existing
// .grad(), and autograd sees none. Tensors on a GPU go to ops_cuda.h.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <utility>

#include "engine/models/layer.h"

namespace twobw::models::ops {

// x [.., in] with weight [out, in] and bias [out] (or undefined) -> [.., out].
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// residual + linear(x, weight, bias).
at::Tensor linear_add(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      const at::Tensor& residual);

// linear(x, weight, bias) and x itself as the residual stream; the backward adds both gradients in its
// product.
std::pair<at::Tensor, at::Tensor> linear_and_stream(const at::Tensor& x, const at::Tensor& weight,
                                                    const at::Tensor& bias);

// Rows of weight [n, w] chosen by index [b, T] -> [b, T, w].
at::Tensor embedding(const at::Tensor& weight, const at::Tensor& index);

// `positions` [b, T] of the operations below: how many tokens of its document precede each token; undefined:
// a sequence is one document.

// Rows of token_weight [V, w] chosen by tokens [b, T], each plus the row of position_weight [T or more, w] of
// its position -> [b, T, w].
at::Tensor embed(const at::Tensor& token_weight, const at::Tensor& position_weight, const at::Tensor& tokens,
                 const at::Tensor& positions = {});

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      double eps = 1e-5);

// GELU, by its tanh approximation and by erf.
at::Tensor gelu(const at::Tensor& x);
at::Tensor erf_gelu(const at::Tensor& x);

// Causal self-attention within each document: packed qkv [b, T, 3w] -> [b, T, w]; dropout applies to
// attention weights.
at::Tensor causal_attention(const at::Tensor& qkv, int heads, double dropout, const MicrobatchContext& pass,
                            int site, const at::Tensor& positions = {});

// Bidirectional self-attention without padding: `lengths` [b] of the sequences (undefined: no padding). The
// first token always counts.
at::Tensor full_attention(const at::Tensor& qkv, int heads, const at::Tensor& lengths, double dropout,
                          const MicrobatchContext& pass, int site);

// The last token of each sequence without its padding: x [b, T, w] -> [b, w]. Undefined lengths: no padding.
at::Tensor last_token(const at::Tensor& x, const at::Tensor& lengths);

// x / sqrt(mean of x^2 + eps), times weight.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

// The layer norm of x, or its RMS norm if `bias` is undefined, and x itself as the residual stream; the
// backward of the norm adds both gradients.
std::pair<at::Tensor, at::Tensor> norm_and_stream(const at::Tensor& x, const at::Tensor& weight,
                                                  const at::Tensor& bias, double eps = 1e-5);

// silu(gate) * value, of the halves gate | value of x [.., 2 f] -> [.., f].
at::Tensor swiglu(const at::Tensor& x);

// Packed queries, keys and values with an RMS norm over every head of queries and of keys.
at::Tensor norm_heads(const at::Tensor& qkv, const Heads& heads, const at::Tensor& query_weight,
                      const at::Tensor& key_weight, double eps);

// Rotary embedding: packed queries, keys and values [b, T, all size] with queries and keys rotated by the
// angles of their position. `angles` [T or more, size]: cosines, then sines (engine/models/rotary.h).
at::Tensor rotate(const at::Tensor& qkv, const Heads& heads, const at::Tensor& angles,
                  const at::Tensor& positions = {});

// Causal grouped-query attention within each document: packed [b, T, all size] -> [b, T, queries size];
// queries / keys adjacent heads of queries share one of keys and values.
at::Tensor grouped_attention(const at::Tensor& qkv, const Heads& heads, const at::Tensor& positions = {});

// Dropout with probability p, in training only; and the same plus a residual stream. `site` distinguishes the
// masks of one layer (core/base/dropout.h).
at::Tensor dropout(const at::Tensor& x, double p, const MicrobatchContext& pass, int site);
at::Tensor dropout_add(const at::Tensor& x, const at::Tensor& residual, double p,
                       const MicrobatchContext& pass, int site);

// Cross-entropy of hidden [.., w] times weight [V, w] plus bias [V] (or undefined) against targets [..],
// summed over targets of at least 0, times `scale` (one double). Logits exist only inside, on a GPU in `room`
// if not null: their gradient replaces them. `of_gradients` (one double, or undefined) also scales the
// gradients.
at::Tensor head_loss(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& bias,
                     const at::Tensor& targets, const at::Tensor& scale, at::Tensor* room = nullptr,
                     const at::Tensor& of_gradients = {});

// Squared error of predicted [b, 1] against values [b] (double), summed over values that are not NaN, times
// `scale`; gradients as those of head_loss.
at::Tensor squared_error(const at::Tensor& predicted, const at::Tensor& values, const at::Tensor& scale,
                         const at::Tensor& of_gradients = {});

// 16-bit tensors on CPUs: the loops of engine/models/kernels.h read and write single precision, and gradients
// of parameters are summed in it. No copy with fp32.

// x in single precision, contiguous.
inline at::Tensor widened(const at::Tensor& x) {
  return x.to(at::kFloat).contiguous();
}

// Adds to the parameter's gradient in place; without one, returns the gradient for autograd to add.
inline at::Tensor accumulate(const at::Tensor& parameter, const at::Tensor& gradient) {
  const at::Tensor& sum = parameter.grad();
  if (!sum.defined()) return gradient;
  sum.add_(gradient);
  return {};
}

}  // namespace twobw::models::ops
