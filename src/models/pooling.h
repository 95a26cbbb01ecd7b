// One vector for a sequence, of those of its tokens.
#pragma once

#include <ATen/ATen.h>

#include <string_view>
#include <vector>

namespace twobw::models {

enum class Pooling {
  Mean,  // of all tokens
  Cls,   // the first
  Last,
};

std::string_view name(Pooling pooling);
const std::vector<Pooling>& all_poolings();

// Of hidden [b, T, w] -> [b, w]; `lengths` [b], int64, each from 1 to T: what comes after is padding.
at::Tensor pool(Pooling pooling, const at::Tensor& hidden, const at::Tensor& lengths);

}  // namespace twobw::models
