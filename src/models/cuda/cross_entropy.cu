#include "models/cuda/block.cuh"
#include "models/kernels_cuda.h"

namespace twobw::models::cuda {
namespace {

constexpr int kThreads = 1024;

// The largest value so far, and the sum of exp(value - largest).
struct Running {
  float largest = -INFINITY, sum = 0;

  __device__ void add(float value) {
    if (value > largest) {
      sum = sum * __expf(largest - value) + 1.0f;
      largest = value;
    } else {
      sum += __expf(value - largest);
    }
  }
};

// Of the whole block, in every thread.
__device__ Running together(const Running& mine) {
  __shared__ Running warps[kThreads / kWarp];
  const float largest = warp_max(mine.largest);
  const float sum = warp_sum(mine.largest == -INFINITY ? 0.0f : mine.sum * __expf(mine.largest - largest));
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = {largest, sum};
  __syncthreads();
  const Running other = warps[threadIdx.x % kWarp];
  Running all;
  all.largest = warp_max(other.largest);
  all.sum = warp_sum(other.largest == -INFINITY ? 0.0f : other.sum * __expf(other.largest - all.largest));
  return all;
}

// A block a row: the logits are read twice, the second time mostly from the cache. A row may end within a
// pack; the rest of that pack is room up to the next row.
template <int N, typename T>
__global__ void __launch_bounds__(kThreads)
    cross_entropy_kernel(T* logits, const std::int64_t* targets, float* loss, int classes, int stride,
                         float scale) {
  static_assert(kThreads / kWarp == kWarp);
  T* row = logits + static_cast<std::int64_t>(blockIdx.x) * stride;
  const int target = static_cast<int>(targets[blockIdx.x]);
  const float wanted = to_float(row[target]);
  Running mine;
  for (int column = threadIdx.x * N; column < classes; column += kThreads * N) {
    float x[N];
    load<N>(row + column, x);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (column + i < classes) mine.add(x[i]);
    }
  }
  const Running all = together(mine);  // ends after all have read `wanted`
  if (threadIdx.x == 0) loss[blockIdx.x] = logf(all.sum) + all.largest - wanted;
  if (scale == 0.0f) return;
  const float factor = scale / all.sum;
  for (int column = threadIdx.x * N; column < classes; column += kThreads * N) {
    float x[N];
    load<N>(row + column, x);
#pragma unroll
    for (int i = 0; i < N; ++i)
      x[i] = factor * __expf(x[i] - all.largest) - (column + i == target ? scale : 0.0f);
    store<N>(x, row + column);
  }
}

// One block: every thread its values in their order, then the threads.
__global__ void __launch_bounds__(kThreads) mean_kernel(const float* values, float* mean, std::int64_t n) {
  float sum = 0;
  for (std::int64_t i = threadIdx.x; i < n; i += kThreads) sum += values[i];
  const float2 total = block_sum<kThreads>(sum, 0);
  if (threadIdx.x == 0) *mean = total.x / static_cast<float>(n);
}

}  // namespace

template <typename T>
void softmax_cross_entropy(T* logits, const std::int64_t* targets, float* loss, std::int64_t rows,
                           int classes, float gradient_scale, cudaStream_t stream, int stride) {
  const auto blocks = static_cast<unsigned>(rows);
  if (stride == 0) stride = classes;
  if (aligned_for(stride, kFullPack<T>)) {
    cross_entropy_kernel<kFullPack<T>>
        <<<blocks, kThreads, 0, stream>>>(logits, targets, loss, classes, stride, gradient_scale);
  } else {
    cross_entropy_kernel<1>
        <<<blocks, kThreads, 0, stream>>>(logits, targets, loss, classes, stride, gradient_scale);
  }
}

void mean(const float* values, float* mean, std::int64_t n, cudaStream_t stream) {
  mean_kernel<<<1, kThreads, 0, stream>>>(values, mean, n);
}

template void softmax_cross_entropy(float*, const std::int64_t*, float*, std::int64_t, int, float,
                                    cudaStream_t, int);
template void softmax_cross_entropy(__nv_bfloat16*, const std::int64_t*, float*, std::int64_t, int, float,
                                    cudaStream_t, int);

}  // namespace twobw::models::cuda
