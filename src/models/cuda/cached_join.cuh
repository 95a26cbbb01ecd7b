// Parts of attention that blocks have left, put together by warps after all have been written.
#pragma once

#include "models/cuda/cached_parts.cuh"

namespace twobw::models::cuda::cached {

// A query of a row by a warp, as a cluster does (Joined::mix_of): the same bits.
template <typename T>
__device__ __forceinline__ void join_as_cluster(const CachedAttention<T>& attention, int query, int parts,
                                                int lane) {
  const int size = attention.size, of_part = size + 2;
  const float* from = attention.partial + static_cast<std::int64_t>(query) * attention.splits * of_part;
  for (int i = lane; i < size; i += kWarp) {
    float mixes[kClusterParts] = {}, tops[kClusterParts] = {}, totals[kClusterParts] = {};
#pragma unroll
    for (int part = 0; part < kClusterParts; ++part) {
      if (part >= parts) continue;
      mixes[part] = __ldcg(from + part * of_part + i);
      tops[part] = __ldcg(from + part * of_part + size);
      totals[part] = __ldcg(from + part * of_part + size + 1);
    }
    float highest = -INFINITY, sum = 0, total = 0;
#pragma unroll
    for (int part = 0; part < kClusterParts; ++part) {
      if (part < parts) highest = fmaxf(highest, tops[part]);
    }
#pragma unroll
    for (int part = 0; part < kClusterParts; ++part) {
      if (part >= parts) continue;
      const float factor = expf(tops[part] - (highest == -INFINITY ? 0.0f : highest));
      sum += factor * mixes[part];
      total += factor * totals[part];
    }
    attention.out[static_cast<std::int64_t>(query) * size + i] = from_float<T>(sum / total);
  }
}

// As the last block to come does (join_parts): the same bits.
template <typename T>
__device__ __forceinline__ void join_in_order(const CachedAttention<T>& attention, int query, int parts,
                                              int lane) {
  const int size = attention.size, of_part = size + 2;
  const float* from = attention.partial + static_cast<std::int64_t>(query) * attention.splits * of_part;
  const float* own = from + static_cast<std::int64_t>(lane) * of_part + size;
  const float top = lane < parts ? __ldcg(own) : -INFINITY, part_sum = lane < parts ? __ldcg(own + 1) : 0.0f;
  const float unscaled = expf(top - warp_max(top));
  const float total = warp_sum(unscaled * part_sum);
  const float weight = unscaled / total;
  for (int first = 0; first < size; first += kWarp) {
    const int i = first + lane;
    float mix = 0;
#pragma unroll 8
    for (int part = 0; part < parts; ++part) {
      const float of_this = __shfl_sync(~0u, weight, part);
      const float value = i < size ? __ldcg(from + static_cast<std::int64_t>(part) * of_part + i) : 0.0f;
      mix += of_this * value;
    }
    if (i < size) attention.out[static_cast<std::int64_t>(query) * size + i] = from_float<T>(mix);
  }
}

}  // namespace twobw::models::cuda::cached
