// Attention to both sides that leaves padding out.
#pragma once

#include <ATen/ATen.h>

#include "models/heads.h"

namespace twobw::models::ops::cuda {

// In bfloat16, with heads of a multiple of 8. `lengths` [b]: tokens that are no padding.
at::Tensor padded_attention(const at::Tensor& qkv, const Heads& heads, const at::Tensor& lengths);

}  // namespace twobw::models::ops::cuda
