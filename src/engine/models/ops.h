// Differentiable building blocks of the layers. Where a parameter's .grad() exists, its gradient is
// accumulated there in place, without a temporary; autograd then sees no gradient for it. Tensors on a GPU
// are computed there (ops_cuda.h).
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

// linear(x, weight, bias), and x itself to go on with: their gradients are then added where the product's is
// made.
std::pair<at::Tensor, at::Tensor> linear_and_stream(const at::Tensor& x, const at::Tensor& weight,
                                                    const at::Tensor& bias);

// Rows of weight [n, w] chosen by index [b, T] -> [b, T, w].
at::Tensor embedding(const at::Tensor& weight, const at::Tensor& index);

// Where sequences hold several documents, `positions` [b, T] are how many tokens of its document come before
// each in the sequence; undefined: a sequence is one document.

// Rows of token_weight [V, w] chosen by tokens [b, T], each plus the row of position_weight [T or more, w] of
// its position -> [b, T, w].
at::Tensor embed(const at::Tensor& token_weight, const at::Tensor& position_weight, const at::Tensor& tokens,
                 const at::Tensor& positions = {});

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      double eps = 1e-5);

// The normed x, and x itself to go on with: their gradients are then added where the norm's is made.
std::pair<at::Tensor, at::Tensor> norm_and_stream(const at::Tensor& x, const at::Tensor& weight,
                                                  const at::Tensor& bias);

// GELU, by its tanh approximation and by erf.
at::Tensor gelu(const at::Tensor& x);
at::Tensor erf_gelu(const at::Tensor& x);

// Causal self-attention within each document, of packed qkv [b, T, 3w] -> [b, T, w]; dropout zeroes attention
// weights.
at::Tensor causal_attention(const at::Tensor& qkv, int heads, double dropout, const MicrobatchContext& pass,
                            int site, const at::Tensor& positions = {});

// Self-attention to both sides, without what lies behind the end of a sequence: `lengths` [b] are the tokens
// of each that are no padding (undefined: there is none). The first token is always seen.
at::Tensor full_attention(const at::Tensor& qkv, int heads, const at::Tensor& lengths, double dropout,
                          const MicrobatchContext& pass, int site);

// Of x [b, T, w] the last token before the padding of each sequence, by its length (undefined: there is no
// padding) -> [b, w].
at::Tensor last_token(const at::Tensor& x, const at::Tensor& lengths);

// x / sqrt(mean of x^2 + eps), times weight; and with x itself to go on with, as norm_and_stream.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);
std::pair<at::Tensor, at::Tensor> rms_norm_and_stream(const at::Tensor& x, const at::Tensor& weight,
                                                      double eps);

// silu(gate) * value, of the halves gate | value of x [.., 2 f] -> [.., f].
at::Tensor swiglu(const at::Tensor& x);

// Packed queries, keys and values with an RMS norm over every head of queries and of keys.
at::Tensor norm_heads(const at::Tensor& qkv, const Heads& heads, const at::Tensor& query_weight,
                      const at::Tensor& key_weight, double eps);

// Packed queries, keys and values [b, T, all size] with queries and keys turned by the angles of their
// position: `angles` [T or more, size] has a position's cosines, then its sines (engine/models/rotary.h).
at::Tensor rotate(const at::Tensor& qkv, const Heads& heads, const at::Tensor& angles,
                  const at::Tensor& positions = {});

// Causal self-attention within each document, of packed [b, T, all size] -> [b, T, queries size]: queries /
// keys neighbouring heads of queries share one of keys and values.
at::Tensor grouped_attention(const at::Tensor& qkv, const Heads& heads, const at::Tensor& positions = {});

// x with each element zeroed with probability p and the rest divided by 1-p, while training; and the same
// onto a residual stream. `site` tells the masks of one layer apart; core/base/dropout.h says how they are
// drawn.
at::Tensor dropout(const at::Tensor& x, double p, const MicrobatchContext& pass, int site);
at::Tensor dropout_add(const at::Tensor& x, const at::Tensor& residual, double p,
                       const MicrobatchContext& pass, int site);

// Cross-entropy of hidden [.., w] times weight [V, w] plus bias [V] (or undefined) against targets [..],
// summed over those targets that are not below 0, times `scale` (one double). The full logits live only
// inside, on a GPU in `room` where it is given: their gradient replaces them. Gradients are multiplied with
// `of_gradients` besides (one double, or undefined).
at::Tensor head_loss(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& bias,
                     const at::Tensor& targets, const at::Tensor& scale, at::Tensor* room = nullptr,
                     const at::Tensor& of_gradients = {});

// The squares of predicted [b, 1] less values [b] (double), summed over those values that are numbers, times
// `scale`; gradients as those of head_loss.
at::Tensor squared_error(const at::Tensor& predicted, const at::Tensor& values, const at::Tensor& scale,
                         const at::Tensor& of_gradients = {});

}  // namespace twobw::models::ops
