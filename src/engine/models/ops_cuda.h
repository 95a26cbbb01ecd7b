// The operations of ops.h on a GPU, in float, bfloat16 or half, on the current stream, which must be
// registered with engine/device/gpu.h. None waits for the device, so that graphs can capture them. Gradients
// of parameters are accumulated into their .grad(), always in float.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <utility>

#include "engine/models/dropout.h"
#include "engine/models/layer.h"

namespace twobw::models::ops::cuda {

// residual (or undefined) + x weight^T + bias (or undefined), in one product.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  const at::Tensor& residual);

// linear() without a residual, and x itself as the residual stream.
std::pair<at::Tensor, at::Tensor> linear_and_stream(const at::Tensor& x, const at::Tensor& weight,
                                                    const at::Tensor& bias);

// position_weight may be undefined.
at::Tensor embed(const at::Tensor& token_weight, const at::Tensor& position_weight, const at::Tensor& tokens);

// A layer norm, or an RMS norm if `bias` is undefined; and with x itself as the residual stream.
at::Tensor norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double eps);
std::pair<at::Tensor, at::Tensor> norm_and_stream(const at::Tensor& x, const at::Tensor& weight,
                                                  const at::Tensor& bias, double eps);

at::Tensor gelu(const at::Tensor& x);
at::Tensor erf_gelu(const at::Tensor& x);
at::Tensor swiglu(const at::Tensor& x);

// Rotates by the angles; `sign` -1 rotates back. Not differentiable.
at::Tensor rotated(const at::Tensor& qkv, const Heads& heads, const at::Tensor& angles, int sign);

// `hidden` (or undefined): if causal, positions [b, T] in documents, else lengths [b] without the padding.
at::Tensor attention(const at::Tensor& qkv, const Heads& heads, const at::Tensor& hidden, bool causal);

// x times the mask, plus `residual` (or undefined); not differentiable.
at::Tensor drop(const at::Tensor& x, const at::Tensor& residual, const DropoutMask& mask, bool in_place);

// Attention with dropped weights (engine/models/attention.cc), not differentiable, of packed qkv without
// gaps: the mixed values and the weights [b, heads, T, T] before the mask; and the gradient of qkv from these
// and the gradient of the mixed values.
std::pair<at::Tensor, at::Tensor> attend(const at::Tensor& packed, int heads, bool causal,
                                         const at::Tensor& tells, const DropoutMask& mask);
at::Tensor attend_backward(const at::Tensor& packed, int heads, const at::Tensor& weights,
                           const at::Tensor& grad_mixed, const DropoutMask& mask);

// The forward accumulates the gradients of `weight` and `bias` (or undefined) if `needs_gradient`.
// `of_gradients` may be undefined; `room` (or null) is for the logits.
at::Tensor head_loss(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& bias,
                     const at::Tensor& targets, const at::Tensor& scale, const at::Tensor& of_gradients,
                     bool needs_gradient, at::Tensor* room);

}  // namespace twobw::models::ops::cuda
