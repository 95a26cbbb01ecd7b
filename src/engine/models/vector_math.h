// Sums that the compiler vectorises in a fixed order, whatever the vector width: so many independent ones.
#pragma once

#include <bit>
#include <cstdint>

namespace twobw::models {

inline constexpr int kLanes = 16;

inline __attribute__((always_inline)) float sum_of(const float (&lanes)[kLanes]) {
  float total = 0;
  for (const float lane : lanes) total += lane;
  return total;
}

inline __attribute__((always_inline)) float dot(const float* a, const float* b, std::int64_t n) {
  const std::int64_t whole = n - n % kLanes;
  float sums[kLanes] = {};
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  float total = sum_of(sums);
  for (std::int64_t i = whole; i < n; ++i) total += a[i] * b[i];
  return total;
}

// e^x to about one unit in the last place for x in [-87, 88], by the usual reduction to
// [-ln2/2, ln2/2] and a polynomial of degree 6; branch-free, so that loops over it vectorise.
inline __attribute__((always_inline)) float fast_exp(float x) {
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  constexpr float kShift = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number
  const float shifted = x * 1.44269504088896341f + kShift;
  const float n = shifted - kShift;
  const float r = (x - n * 0.693145751953125f) - n * 1.428606765330187e-6f;
  float p = 1.3888889e-3f;
  p = p * r + 8.3333333e-3f;
  p = p * r + 4.1666667e-2f;
  p = p * r + 1.6666667e-1f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const auto power = (std::bit_cast<std::int32_t>(shifted) << 23) + std::bit_cast<std::int32_t>(1.0f);
  return p * std::bit_cast<float>(power);
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

}  // namespace twobw::models
