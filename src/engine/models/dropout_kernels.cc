#include "engine/models/dropout_kernels.h"

#include <algorithm>

#include "core/base/attributes.h"
#include "engine/models/fast_exp.h"
#include "engine/models/lanes.h"

namespace twobw::models {
namespace {

constexpr int kGroups = 8;           // counters that are drawn for at once
constexpr int kDrawn = 4 * kGroups;  // columns

using Factors = float[kDrawn];

inline __attribute__((always_inline)) void draw(const RowsOfMask& mask, const MaskRow& row,
                                                std::int64_t column, Factors& factors) {
  const auto first = static_cast<std::uint32_t>(column / 4);
  for (int group = 0; group < kGroups; ++group)
    dropout_factors(mask.key, row, first + static_cast<std::uint32_t>(group), mask.rate, factors + 4 * group);
}

// Of the columns that were drawn for, those that the row has.
inline __attribute__((always_inline)) int drawn(const RowsOfMask& mask, std::int64_t column) {
  return static_cast<int>(std::min<std::int64_t>(kDrawn, mask.width - column));
}

inline __attribute__((always_inline)) float largest(const float* x, std::int64_t n) {
  const std::int64_t whole = n - n % kLanes;
  float highest[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) highest[lane] = x[0];
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane)
      highest[lane] = x[i + lane] > highest[lane] ? x[i + lane] : highest[lane];
  }
  float top = highest[0];
  for (const float candidate : highest) top = candidate > top ? candidate : top;
  for (std::int64_t i = whole; i < n; ++i) top = x[i] > top ? x[i] : top;
  return top;
}

}  // namespace

TWOBW_VECTORIZED
void drop_rows(const RowsOfMask& mask, const float* x, const float* residual, float* out, std::int64_t begin,
               std::int64_t end) {
  Factors factors;
  for (std::int64_t row = begin; row < end; ++row) {
    const MaskRow place = mask_row(row, mask.n1, mask.n2);
    for (std::int64_t column = 0; column < mask.width; column += kDrawn) {
      draw(mask, place, column, factors);
      const std::int64_t at = row * mask.width + column;
      const int count = drawn(mask, column);
      if (residual != nullptr) {
        for (int i = 0; i < count; ++i) out[at + i] = residual[at + i] + x[at + i] * factors[i];
      } else {
        for (int i = 0; i < count; ++i) out[at + i] = x[at + i] * factors[i];
      }
    }
  }
}

TWOBW_VECTORIZED
void softmax_row(float* scores, std::int64_t width, std::int64_t seen, float scale) {
  const float top = largest(scores, seen);
  const std::int64_t whole = seen - seen % kLanes;
  float sums[kLanes] = {};
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const float power = fast_exp((scores[i + lane] - top) * scale);
      scores[i + lane] = power;
      sums[lane] += power;
    }
  }
  for (std::int64_t i = whole; i < seen; ++i) {
    scores[i] = fast_exp((scores[i] - top) * scale);
    sums[i - whole] += scores[i];
  }
  const float share = 1.0f / sum_of(sums);
  for (std::int64_t i = 0; i < seen; ++i) scores[i] *= share;
  std::fill(scores + seen, scores + width, 0.0f);
}

// Of weights w = softmax(scale * scores) with the gradient g: scale * w * (g - the sum of w g).
TWOBW_VECTORIZED
void softmax_row_backward(const float* weights, float* gradient, std::int64_t width, float scale) {
  const std::int64_t whole = width - width % kLanes;
  float sums[kLanes] = {};
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) sums[lane] += weights[i + lane] * gradient[i + lane];
  }
  for (std::int64_t i = whole; i < width; ++i) sums[i - whole] += weights[i] * gradient[i];
  const float common = sum_of(sums);
  for (std::int64_t i = 0; i < width; ++i) gradient[i] = scale * (weights[i] * (gradient[i] - common));
}

}  // namespace twobw::models
