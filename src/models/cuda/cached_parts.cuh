// How the places of attention to what is kept are dealt out to blocks, and put together again.
#pragma once

#include "models/cuda/cached_heads.cuh"
#include "models/decode_kernels_cuda.h"

namespace twobw::models::cuda::cached {

constexpr int kMostQueries = kWarps;  // of a block, which share a head of keys
constexpr int kMostParts = kWarp;
constexpr int kFewestPlaces = 64;  // of a part
// Parts of a cluster of blocks, which puts them together in shared memory: up to so many places in all.
constexpr int kClusterParts = 8;
constexpr std::int64_t kClusterPlaces = 2048;

// Which of the parts, of the heads and of the rows a block takes: its own index, or what a block that takes
// several has come to.
struct Turn {
  int part, heads, row;
};

// The places that a block takes, of one row. How they are dealt out depends on their number, not on the rows.
struct Part {
  int seen, begin, end;  // `end` without the newest place, which is `seen`
  int parts, index;

  template <typename T>
  __device__ static Part of(const CachedAttention<T>& attention, const Turn& turn) {
    const int seen = static_cast<int>(__ldcg(attention.seen + turn.row)), length = seen + 1;
    const int even = (length + attention.splits - 1) / attention.splits;
    const int places = even < kFewestPlaces ? kFewestPlaces : even;
    const int begin = turn.part * places;
    return {.seen = seen,
            .begin = begin,
            .end = begin + places < seen ? begin + places : seen,
            .parts = (length + places - 1) / places,
            .index = turn.part};
  }
  __device__ bool exists() const { return index < parts; }
  __device__ bool is_last() const { return index + 1 == parts; }
};

// The queries of a block.
template <typename S>
struct Heads {
  int keys, first, count;  // the head of keys; the heads of queries

  template <typename T>
  __device__ static Heads of(const CachedAttention<T>& attention, const Turn& turn) {
    const int group = attention.queries / attention.key_heads;
    const int blocks = (group + S::kQueries - 1) / S::kQueries;  // of a head of keys
    const int keys = turn.heads / blocks, before = turn.heads % blocks * S::kQueries;
    return {.keys = keys, .first = keys * group + before, .count = min(S::kQueries, group - before)};
  }
};

// A barrier of the cluster's blocks in two halves; what was written before the first is seen after the
// second.
__device__ __forceinline__ void arrive_in_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive;" ::: "memory");
#endif
}
__device__ __forceinline__ void await_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait;" ::: "memory");
#endif
}

// What the parts of a cluster leave in its first block: mixes, greatest scores and sums of weights.
template <typename S>
struct Joined {
  float mixes[kClusterParts][S::kQueries][S::kSize];
  float tops[kClusterParts][S::kQueries], totals[kClusterParts][S::kQueries];

  // `own` is a place of this block's; that of the first block is written.
  __device__ static void put(float* own, float value) {
#if __CUDA_ARCH__ >= 900
    unsigned first = 0;
    asm("mapa.shared::cluster.u32 %0, %1, 0;"
        : "=r"(first)
        : "r"(static_cast<unsigned>(__cvta_generic_to_shared(own))));
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(first), "f"(value) : "memory");
#endif
  }
  // Element i of a query's mix, of the parts in their order.
  __device__ float mix_of(int parts, int query, int i) const {
    float highest = -INFINITY, sum = 0, total = 0;
#pragma unroll
    for (int part = 0; part < kClusterParts; ++part) {
      if (part < parts) highest = fmaxf(highest, tops[part][query]);
    }
#pragma unroll
    for (int part = 0; part < kClusterParts; ++part) {
      if (part >= parts) continue;
      const float factor = Mix<S>::factor(tops[part][query], highest);
      sum += factor * mixes[part][query][i];
      total += factor * totals[part][query];
    }
    return sum / total;
  }
};

// Element i of a part's mix of a query, of a row; the first is with what belongs to all.
template <typename T>
__device__ __forceinline__ void put_partial(const CachedAttention<T>& attention, std::int64_t query, int part,
                                            int i, float sum, float highest, float total) {
  const int size = attention.size;
  float* to = attention.partial + (query * attention.splits + part) * (size + 2);
  to[i] = sum;
  if (i == 0) {
    to[size] = highest;
    to[size + 1] = total;
  }
}

// Whether all other parts of the queries have been written, and can be read; then it counts from 0 again. All
// threads of the block must come.
__device__ __forceinline__ bool is_last_to_come(int* arrived, int parts) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(arrived, 1) == parts - 1;
    if (last) *arrived = 0;
  }
  __syncthreads();
  __threadfence();
  return last;
}

// Puts the parts of the queries together, in their order: a warp finds what those of a query weigh. Past the
// first cache, which does not see what other multiprocessors have written.
template <typename T>
__device__ void join_parts(const CachedAttention<T>& attention, int parts, int row, int first, int count) {
  __shared__ float weights[kMostQueries][kMostParts];
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const int size = attention.size;
  const std::int64_t of_part = size + 2, of_head = attention.splits * of_part;
  const float* partial =
      attention.partial + (static_cast<std::int64_t>(row) * attention.queries + first) * of_head;
  if (warp < count) {
    const float* own = partial + warp * of_head + lane * of_part + size;
    const float top = lane < parts ? __ldcg(own) : -INFINITY, sum = lane < parts ? __ldcg(own + 1) : 0.0f;
    const float weight = expf(top - warp_max(top));
    const float total = warp_sum(weight * sum);
    weights[warp][lane] = weight / total;
  }
  __syncthreads();
  T* out = attention.out + (static_cast<std::int64_t>(row) * attention.queries + first) * size;
  for (int item = static_cast<int>(threadIdx.x); item < count * size; item += kThreads) {
    const int query = item / size;
    const float* from = partial + query * of_head + item % size;
    float mix = 0;
#pragma unroll 8
    for (int part = 0; part < parts; ++part) mix += weights[query][part] * __ldcg(from + part * of_part);
    out[item] = from_float<T>(mix);
  }
}

}  // namespace twobw::models::cuda::cached
