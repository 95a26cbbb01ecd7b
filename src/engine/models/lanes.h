// Sums that the compiler vectorises in a fixed order, whatever the vector width: so many independent ones.
#pragma once

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

}  // namespace twobw::models
