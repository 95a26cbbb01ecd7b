// Attention with keys that queries must not see: padding, or those of later tokens and other documents.
#pragma once

#include <ATen/ATen.h>

#include "engine/models/heads.h"

namespace twobw::models::ops::cuda {

// What is added to the scores [b, heads, T, T]. `tells` which keys are hidden: lengths [b] of the tokens that
// are no padding, to both sides; or positions [b, T] in documents, within which attention is causal.
at::Tensor mask_of(const at::Tensor& tells, std::int64_t heads, std::int64_t places,
                   const at::TensorOptions& options);

// In 16 bits, with heads of a multiple of 8.
at::Tensor masked_attention(const at::Tensor& qkv, const Heads& heads, const at::Tensor& tells);

}  // namespace twobw::models::ops::cuda
