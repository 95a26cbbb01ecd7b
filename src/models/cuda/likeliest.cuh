// The token that a step leaves to the next, by blocks that share a row's logits.
#pragma once

#include "models/cuda/block.cuh"
#include "models/decode_kernels_cuda.h"

namespace twobw::models::cuda::likeliest {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;

// Greater for a greater number, and of equal ones for the first; never 0.
__device__ __forceinline__ unsigned long long rank_of(float value, std::int64_t index) {
  const unsigned bits = __float_as_uint(value + 0.0f);  // one zero
  unsigned order = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
  if (isnan(value)) order = ~0u;
  return static_cast<unsigned long long>(order) << 32 | (~0u - static_cast<unsigned>(index));
}
__device__ __forceinline__ std::int64_t index_of(unsigned long long rank) {
  return ~0u - static_cast<unsigned>(rank);
}

// The greatest of the block's, in its first thread.
template <typename Sync>
__device__ __forceinline__ unsigned long long greatest(unsigned long long rank, Sync sync) {
  __shared__ unsigned long long ranks[kWarps];
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) rank = max(rank, __shfl_xor_sync(~0u, rank, offset));
  if (threadIdx.x % kWarp == 0) ranks[threadIdx.x / kWarp] = rank;
  sync();
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) rank = max(rank, ranks[warp]);
  return rank;
}

// For the host, which looks at it while the GPU goes on.
__device__ __forceinline__ void tell_host(std::int64_t* to, std::int64_t token) {
  asm volatile("st.relaxed.sys.global.s64 [%0], %1;" ::"l"(__cvta_generic_to_global(to)), "l"(token)
               : "memory");
}

// Past the first cache, which may have what was there before.
template <int N, typename T>
__device__ __forceinline__ void load_made(const T* from, float (&to)[N]) {
  Pack<T, N> pack;
  if constexpr (N == 1) {
    pack.values[0] = __ldcg(from);
  } else {
    static_assert(sizeof(pack) == sizeof(uint4));
    const uint4 raw = __ldcg(reinterpret_cast<const uint4*>(from));
    pack = *reinterpret_cast<const Pack<T, N>*>(&raw);
  }
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = to_float(pack.values[i]);
}

// What one of `blocks` blocks does of a row; the last to come takes the token. `sync` is a barrier of the
// kThreads threads, and none comes again before another.
template <int N, typename T, typename Sync>
__device__ __forceinline__ void take_part(const Likeliest<T>& likeliest, std::int64_t row, unsigned block,
                                          unsigned blocks, Sync sync) {
  const T* logits = likeliest.logits + row * likeliest.classes;
  unsigned long long rank = 0;
  const std::int64_t stride = static_cast<std::int64_t>(blocks) * kThreads * N;
#pragma unroll 4
  for (std::int64_t at = (static_cast<std::int64_t>(block) * kThreads + threadIdx.x) * N;
       at < likeliest.classes; at += stride) {
    float values[N];
    load_made<N>(logits + at, values);
#pragma unroll
    for (int i = 0; i < N; ++i) rank = max(rank, rank_of(values[i], at + i));
  }
  rank = greatest(rank, sync);
  if (threadIdx.x != 0) return;
  unsigned long long *best = likeliest.room + 2 * row, *arrived = best + 1;
  atomicMax(best, rank);
  __threadfence();
  if (atomicAdd(arrived, 1ull) != blocks - 1) return;
  __threadfence();
  const std::int64_t token = index_of(atomicExch(best, 0ull));
  likeliest.tokens[row] = token;
  if (likeliest.told != nullptr) tell_host(likeliest.told + row, token);
  *arrived = 0;
  const std::int64_t next = __ldcg(likeliest.seen + row) + 1;
  likeliest.seen[row] = next < likeliest.places ? next : likeliest.places - 1;
  __threadfence();
}

}  // namespace twobw::models::cuda::likeliest
