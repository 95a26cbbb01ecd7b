// Loads and stores of several elements at once, and sums within warps and blocks in a fixed order.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace twobw::models::cuda {

inline constexpr int kWarp = 32;
inline constexpr std::int64_t kGridRows = 65535;  // the most blocks of a grid along y and z

// N neighbouring elements, read and written at once.
template <typename T, int N>
struct alignas(N * sizeof(T)) Pack {
  T values[N];
};

template <typename T>
inline constexpr int kFullPack = 16 / sizeof(T);

__device__ __forceinline__ float to_float(float value) {
  return value;
}
__device__ __forceinline__ float to_float(__nv_bfloat16 value) {
  return __bfloat162float(value);
}
__device__ __forceinline__ float to_float(__half value) {
  return __half2float(value);
}
template <typename T>
__device__ __forceinline__ T from_float(float value) {
  return static_cast<T>(value);
}

template <int N, typename T>
__device__ __forceinline__ void load(const T* from, float (&to)[N]) {
  const auto pack = *reinterpret_cast<const Pack<T, N>*>(from);
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = to_float(pack.values[i]);
}

template <int N, typename T>
__device__ __forceinline__ void store(const float (&from)[N], T* to) {
  Pack<T, N> pack;
#pragma unroll
  for (int i = 0; i < N; ++i) pack.values[i] = from_float<T>(from[i]);
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

// In every thread of the warp.
__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(~0u, value, offset);
  return value;
}
__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2)
    value = fmaxf(value, __shfl_xor_sync(~0u, value, offset));
  return value;
}

// Two sums at once, in every thread of the block. All threads must come, and not again before a
// __syncthreads().
template <int Threads>
__device__ __forceinline__ float2 block_sum(float a, float b) {
  __shared__ float2 sums[Threads / kWarp];
  a = warp_sum(a);
  b = warp_sum(b);
  if (threadIdx.x % kWarp == 0) sums[threadIdx.x / kWarp] = {a, b};
  __syncthreads();
  float2 total = {0, 0};
#pragma unroll
  for (int i = 0; i < Threads / kWarp; ++i) {
    total.x += sums[i].x;
    total.y += sums[i].y;
  }
  return total;
}

inline bool aligned_for(std::int64_t width, int pack) {
  return width % pack == 0;
}

// Calls back with the elements that a thread moves at once: a full pack if rows of `width` elements consist
// of packs, else one.
template <typename T, typename Launch>
void with_pack(std::int64_t width, const Launch& launch) {
  if (aligned_for(width, kFullPack<T>))
    launch.template operator()<kFullPack<T>>();
  else
    launch.template operator()<1>();
}

// Blocks for `items`, `each` of which a block takes.
inline unsigned blocks_of(std::int64_t items, std::int64_t each) {
  return static_cast<unsigned>((items + each - 1) / each);
}

// Instantiates kernels for all element types.
#define TWOBW_FOR_ELEMENT_TYPES(INSTANTIATE) \
  INSTANTIATE(float)                         \
  INSTANTIATE(__nv_bfloat16)                 \
  INSTANTIATE(__half)

// Allows launches of the kernel with this much dynamic shared memory; false if the current GPU has less.
template <typename Kernel>
bool make_room(Kernel* kernel, std::size_t bytes) {
  int gpu = 0, most = 0;
  if (cudaGetDevice(&gpu) != cudaSuccess ||
      cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, gpu) != cudaSuccess)
    return false;
  cudaFuncAttributes attributes{};
  if (cudaFuncGetAttributes(&attributes, kernel) != cudaSuccess) return false;
  if (attributes.sharedSizeBytes + bytes > static_cast<std::size_t>(most)) return false;
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)) ==
         cudaSuccess;
}

// Four adjacent columns of a row, for which the bits of dropout are drawn together.
inline constexpr int kGroup = 4;

// Load and store the columns of a group within the row, `count` or all; the others are 0. `Whole`: the width
// is a multiple of four.
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

// Sums over rows in two steps and a fixed order: chunks of rows first, then the chunks (column_sums.cu).
struct Sums {
  const float* partial[2];  // [chunks, width] each
  float* gradient[2];
};

// gradient[column] += the sum over `chunks` rows of partial [chunks, width], for the first `count` of `sums`.
void add_partials(const Sums& sums, int count, int chunks, int width, cudaStream_t stream);

}  // namespace twobw::models::cuda
