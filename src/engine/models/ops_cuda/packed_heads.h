// Packed queries, keys and values as LibTorch's attention takes them, and back.
#pragma once

#include <ATen/ATen.h>

#include <array>

#include "engine/models/heads.h"

namespace twobw::models::ops::cuda {

// q, k and v [b, heads, T, size] out of packed qkv, as they lie there.
std::array<at::Tensor, 3> split_heads(const at::Tensor& qkv, const Heads& heads);

// [b, heads, T, size] -> [b, T, heads size]; no copy where the heads of a token lie side by side.
at::Tensor join_heads(const at::Tensor& x);

// Of packed qkv, from those of q, k and v [b, heads, T, size].
at::Tensor pack_gradients(const at::Tensor& grad_q, const at::Tensor& grad_k, const at::Tensor& grad_v);

}  // namespace twobw::models::ops::cuda
