// Four neighbouring columns of a row, for which bits are drawn together.
#pragma once

#include "engine/models/cuda/block.cuh"

namespace twobw::models::cuda {

inline constexpr int kGroup = 4;

// Those of the four that the row still has, `count` or all of them; the others are 0. `Whole`: the width is a
// multiple of four.
template <bool Whole, typename T>
__device__ __forceinline__ void load_group(const T* from, int count, float (&to)[kGroup]) {
  if constexpr (Whole) {
    load<kGroup>(from, to);
  } else {
#pragma unroll
    for (int i = 0; i < kGroup; ++i) to[i] = i < count ? to_float(from[i]) : 0.0f;
  }
}

template <bool Whole, typename T>
__device__ __forceinline__ void store_group(const float (&from)[kGroup], int count, T* to) {
  if constexpr (Whole) {
    store<kGroup>(from, to);
  } else {
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      if (i < count) to[i] = from_float<T>(from[i]);
    }
  }
}

}  // namespace twobw::models::cuda
