#include <algorithm>

#include "models/cuda/block.cuh"
#include "models/cuda/early_begin.cuh"
#include "models/decode_kernels_cuda.h"

namespace twobw::models::cuda {
namespace {

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
__device__ __forceinline__ unsigned long long greatest(unsigned long long rank) {
  __shared__ unsigned long long ranks[kWarps];
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) rank = max(rank, __shfl_xor_sync(~0u, rank, offset));
  if (threadIdx.x % kWarp == 0) ranks[threadIdx.x / kWarp] = rank;
  __syncthreads();
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) rank = max(rank, ranks[warp]);
  return rank;
}

// For the host, which looks at it while the GPU goes on.
__device__ __forceinline__ void tell_host(std::int64_t* to, std::int64_t token) {
  asm volatile("st.relaxed.sys.global.s64 [%0], %1;" ::"l"(__cvta_generic_to_global(to)), "l"(token)
               : "memory");
}

// Some blocks a row, of which the last to come takes the token. The next kernel begins when all have ended:
// of the next step attention reads `seen` before it waits.
template <int N, typename T>
__global__ void __launch_bounds__(kThreads) likeliest_kernel(const __grid_constant__ Likeliest<T> likeliest) {
  await_kernel_before();
  const std::int64_t row = blockIdx.y;
  const T* logits = likeliest.logits + row * likeliest.classes;
  unsigned long long rank = 0;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads * N;
#pragma unroll 4
  for (std::int64_t at = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N;
       at < likeliest.classes; at += stride) {
    float values[N];
    load<N>(logits + at, values);
#pragma unroll
    for (int i = 0; i < N; ++i) rank = max(rank, rank_of(values[i], at + i));
  }
  rank = greatest(rank);
  if (threadIdx.x != 0) return;
  unsigned long long *best = likeliest.room + 2 * row, *arrived = best + 1;
  atomicMax(best, rank);
  __threadfence();
  if (atomicAdd(arrived, 1ull) != gridDim.x - 1) return;
  __threadfence();
  const std::int64_t token = index_of(atomicExch(best, 0ull));
  likeliest.tokens[row] = token;
  if (likeliest.told != nullptr) tell_host(likeliest.told + row, token);
  *arrived = 0;
  const std::int64_t next = likeliest.seen[row] + 1;
  likeliest.seen[row] = next < likeliest.places ? next : likeliest.places - 1;
  __threadfence();
}

template <int N, typename T>
void launch(const Likeliest<T>& likeliest, cudaStream_t stream) {
  constexpr std::int64_t kMostBlocks = 64;  // of a row
  const std::int64_t each = std::int64_t{kThreads} * N;
  const auto blocks = static_cast<unsigned>(std::min((likeliest.classes + each - 1) / each, kMostBlocks));
  launch_in_step(likeliest_kernel<N, T>,
                 {.blocks = dim3(blocks, static_cast<unsigned>(likeliest.rows)), .threads = kThreads}, stream,
                 likeliest);
}

}  // namespace

template <typename T>
void take_likeliest(const Likeliest<T>& likeliest, cudaStream_t stream) {
  if (likeliest.classes % kFullPack<T> == 0) {
    launch<kFullPack<T>>(likeliest, stream);
  } else {
    launch<1>(likeliest, stream);
  }
}

template void take_likeliest(const Likeliest<float>&, cudaStream_t);
template void take_likeliest(const Likeliest<__nv_bfloat16>&, cudaStream_t);
template void take_likeliest(const Likeliest<__half>&, cudaStream_t);

}  // namespace twobw::models::cuda
