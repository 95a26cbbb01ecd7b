// Sequences that end before the context does.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace twobw::models {

// True [b, 1, 1, T] behind the end of each sequence, of which at least one token counts.
inline at::Tensor padding_of(const at::Tensor& lengths, std::int64_t places) {
  const at::Tensor ends = lengths.clamp_min(1).view({-1, 1, 1, 1});
  return at::arange(places, lengths.options()).ge(ends);
}

}  // namespace twobw::models
