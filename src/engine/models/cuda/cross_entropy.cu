#include <cuda_pipeline.h>

#include "engine/models/cuda/block.cuh"
#include "engine/models/kernels_cuda.h"

namespace twobw::models::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / kWarp;
static_assert(kWarps <= kWarp);

// e^x, 0 where that is too small to be a normal number: __expf() takes three instructions more to keep those.
__device__ __forceinline__ float exp_or_zero(float x) {
  constexpr float kLog2OfE = 1.44269504f;
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * kLog2OfE));
  return power;
}

// 0 for the maximum of no values; NaN stays.
__device__ float finite(float largest) {
  return largest == -INFINITY ? 0.0f : largest;
}

// The largest value so far, and the sum of exp(value - largest).
struct Running {
  float largest = -INFINITY, sum = 0;

  template <int N>
  __device__ void add(const float (&values)[N]) {
    float top = largest;
#pragma unroll
    for (int i = 0; i < N; ++i) top = fmaxf(top, values[i]);
    sum *= exp_or_zero(largest - finite(top));
#pragma unroll
    for (int i = 0; i < N; ++i) sum += exp_or_zero(values[i] - finite(top));
    largest = top;
  }
};

// Reduces over the warp, for every thread.
__device__ Running within_warp(const Running& mine) {
  const float largest = warp_max(mine.largest);
  return {largest, warp_sum(mine.sum * exp_or_zero(mine.largest - finite(largest)))};
}

// Reduces over the block, for every thread.
__device__ Running together(const Running& mine) {
  __shared__ Running warps[kWarps];
  const Running warp = within_warp(mine);
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = warp;
  __syncthreads();
  return within_warp(threadIdx.x % kWarp < kWarps ? warps[threadIdx.x % kWarp] : Running{});
}

// An ignored target: no loss, no gradient. May write the padding of the row.
template <int N, typename T>
__device__ void ignore(T* row, float* loss, int classes, bool gradient) {
  if (threadIdx.x == 0) *loss = 0.0f;
  if (!gradient) return;
  const float zeros[N] = {};
  for (int column = static_cast<int>(threadIdx.x) * N; column < classes; column += kThreads * N)
    store<N>(zeros, row + column);
}

// One block for each row. With Kept it is read once and kept, each part in its thread; otherwise it is read
// twice, the second time mostly from the cache. A row may end within a pack; the rest of the pack is padding.
template <int N, bool Kept, typename T>
__global__ void __launch_bounds__(kThreads, Kept ? 2 : 3)
    cross_entropy_kernel(T* logits, const std::int64_t* targets, float* loss, int classes, int stride,
                         const double* gradient_scale) {
  extern __shared__ float4 room[];
  T* row = logits + static_cast<std::int64_t>(blockIdx.x) * stride;
  T* kept = Kept ? reinterpret_cast<T*>(room) : row;
  const int first = static_cast<int>(threadIdx.x) * N;
  const int target = static_cast<int>(targets[blockIdx.x]);
  if (target < 0) return ignore<N>(row, loss + blockIdx.x, classes, gradient_scale != nullptr);
  const float wanted = to_float(row[target]);
  if constexpr (Kept) {
    for (int column = first; column < classes; column += kThreads * N)
      __pipeline_memcpy_async(kept + column, row + column, N * sizeof(T));
    __pipeline_commit();
    __pipeline_wait_prior(0);
  }
  // Neither the end of the row nor the target is asked for within the loops, which have as much to compute as
  // to read where there are few multiprocessors.
  Running mine;
  int column = first;
  for (; column + N <= classes; column += kThreads * N) {
    float x[N];
    load<N>(kept + column, x);
    mine.add(x);
  }
  if (column < classes) {
    float x[N];
    load<N>(kept + column, x);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (column + i >= classes) x[i] = -INFINITY;
    }
    mine.add(x);
  }
  const Running all = together(mine);  // ends after all have read `wanted`
  if (threadIdx.x == 0) loss[blockIdx.x] = logf(all.sum) + all.largest - wanted;
  if (gradient_scale == nullptr) return;
  const auto scale = static_cast<float>(*gradient_scale);
  const float factor = scale / all.sum;
  for (column = first; column < classes; column += kThreads * N) {
    float x[N];
    load<N>(kept + column, x);
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = factor * exp_or_zero(x[i] - all.largest);
    store<N>(x, row + column);
  }
  if (target / N % kThreads == threadIdx.x)  // whose pack it is in
    row[target] = from_float<T>(factor * exp_or_zero(wanted - all.largest) - scale);
}

// One block: every thread its values in their order, then the threads.
__global__ void __launch_bounds__(kThreads)
    scaled_sum_kernel(const float* values, const double* scale, float* result, std::int64_t n) {
  float sum = 0;
  for (std::int64_t i = threadIdx.x; i < n; i += kThreads) sum += values[i];
  const float2 total = block_sum<kThreads>(sum, 0);
  if (threadIdx.x == 0) *result = static_cast<float>(total.x * *scale);
}

}  // namespace

template <typename T>
void softmax_cross_entropy(T* logits, const std::int64_t* targets, float* loss, std::int64_t rows,
                           int classes, const double* gradient_scale, cudaStream_t stream, int stride) {
  const auto blocks = static_cast<unsigned>(rows);
  if (stride == 0) stride = classes;
  constexpr int N = kFullPack<T>;
  if (!aligned_for(stride, N)) {
    cross_entropy_kernel<1, false>
        <<<blocks, kThreads, 0, stream>>>(logits, targets, loss, classes, stride, gradient_scale);
    return;
  }
  const int packs = (classes + N - 1) / N;
  const auto room = static_cast<std::size_t>(packs) * N * sizeof(T);
  if (gradient_scale != nullptr && make_room(cross_entropy_kernel<N, true, T>, room)) {
    cross_entropy_kernel<N, true>
        <<<blocks, kThreads, room, stream>>>(logits, targets, loss, classes, stride, gradient_scale);
  } else {
    cross_entropy_kernel<N, false>
        <<<blocks, kThreads, 0, stream>>>(logits, targets, loss, classes, stride, gradient_scale);
  }
}

void scaled_sum(const float* values, const double* scale, float* result, std::int64_t n,
                cudaStream_t stream) {
  scaled_sum_kernel<<<1, kThreads, 0, stream>>>(values, scale, result, n);
}

#define TWOBW_KERNELS(T)                                                                                 \
  template void softmax_cross_entropy(T*, const std::int64_t*, float*, std::int64_t, int, const double*, \
                                      cudaStream_t, int);
TWOBW_FOR_ELEMENT_TYPES(TWOBW_KERNELS)
#undef TWOBW_KERNELS

}  // namespace twobw::models::cuda
