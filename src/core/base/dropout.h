// Dropout masks as functions of a key and of an element's position: CPUs and GPUs, any layout and any
// recomputation draw the same mask, and none is stored.
//
// The key of a mask is made of (seed, update, microbatch) and of (layer, site): see dropout_key and
// dropout_site below. An element is named by its column (a feature, or a key of attention) and by the indexes
// before it (the position and the sequence; or the query, the head and the sequence): the counter of Philox
// is (column / 4, last index, the one before, the first), and word column % 4 of the drawn bits decides. So
// the mask does not depend on the length of the sequences in the microbatch.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/base/random.h"

namespace twobw {

// Keys of a microbatch, and of a layer's site within it.
constexpr std::uint64_t dropout_key(std::uint64_t seed, std::int64_t update, std::int64_t microbatch) {
  return random_key(seed, hash_text("dropout"), update, microbatch);
}
constexpr std::uint64_t dropout_site(int layer, int site) {
  return random_key(static_cast<std::uint64_t>(layer), site);
}
TWOBW_HOST_DEVICE constexpr std::uint64_t mask_key(std::uint64_t key, std::uint64_t site) {
  return scramble(key ^ site);
}

// An element is kept if its bits are at least `threshold`, and then multiplied by `scale`.
struct DropoutRate {
  std::uint32_t threshold;
  float scale;
};
inline DropoutRate dropout_rate(double p) {
  const double threshold = std::min(std::round(p * 4294967296.0), 4294967295.0);
  return {static_cast<std::uint32_t>(threshold), static_cast<float>(1.0 / (1.0 - p))};
}
TWOBW_HOST_DEVICE float dropout_factor(std::uint32_t bits, DropoutRate rate) {
  return bits >= rate.threshold ? rate.scale : 0.0f;
}

// The indexes of a row, the last first; missing dimensions are 0.
struct MaskRow {
  std::uint32_t i1, i2, i3;
};
// Row `row` of a tensor [.., n2, n1, width].
TWOBW_HOST_DEVICE MaskRow mask_row(std::int64_t row, std::int64_t n1, std::int64_t n2) {
  const std::int64_t before = row / n1;
  return {static_cast<std::uint32_t>(row - before * n1), static_cast<std::uint32_t>(before % n2),
          static_cast<std::uint32_t>(before / n2)};
}

// The factors of columns 4 group to 4 group + 3.
TWOBW_HOST_DEVICE void dropout_factors(std::uint64_t key, const MaskRow& row, std::uint32_t group,
                                       DropoutRate rate, float* factors) {
  const PhiloxWords bits = philox4x32({group, row.i1, row.i2, row.i3}, key);
  factors[0] = dropout_factor(bits.x0, rate);
  factors[1] = dropout_factor(bits.x1, rate);
  factors[2] = dropout_factor(bits.x2, rate);
  factors[3] = dropout_factor(bits.x3, rate);
}

}  // namespace twobw
