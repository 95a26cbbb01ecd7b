#include <algorithm>

#include "engine/models/cuda/block.cuh"
#include "engine/models/kernels_cuda.h"

namespace twobw::models::cuda {
namespace {

constexpr int kThreads = 128;

// Loads the gates and values of a pack of columns.
template <int N, typename T>
__device__ __forceinline__ void load_halves(const T* x, std::int64_t row, int width, int column,
                                            float (&gate)[N], float (&value)[N]) {
  const T* at = x + row * 2 * width + column;
  load<N>(at, gate);
  load<N>(at + width, value);
}

__device__ __forceinline__ float sigmoid(float x) {
  return __fdividef(1.0f, 1.0f + expf(-x));
}

// A thread a pack of the output.
template <int N, typename T>
__global__ void __launch_bounds__(kThreads) forward_kernel(const T* x, T* out, std::int64_t rows, int width) {
  const int column = static_cast<int>(blockIdx.x * kThreads + threadIdx.x) * N;
  if (column >= width) return;
  for (std::int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    float gate[N], value[N];
    load_halves<N>(x, row, width, column, gate, value);
#pragma unroll
    for (int i = 0; i < N; ++i) value[i] *= gate[i] * sigmoid(gate[i]);
    store<N>(value, out + row * width + column);
  }
}

// A thread a pack of grad_out; it reads and writes the same places of x and grad_x.
template <int N, typename T>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(const T* x, const T* grad_out, T* grad_x, std::int64_t rows, int width) {
  const int column = static_cast<int>(blockIdx.x * kThreads + threadIdx.x) * N;
  if (column >= width) return;
  for (std::int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    float gate[N], value[N], gradient[N];
    load<N>(grad_out + row * width + column, gradient);
    load_halves<N>(x, row, width, column, gate, value);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float s = sigmoid(gate[i]);
      const float slope = s * (1.0f + gate[i] * (1.0f - s));
      const float silu = gate[i] * s;
      gate[i] = gradient[i] * value[i] * slope;
      value[i] = gradient[i] * silu;
    }
    T* to = grad_x + row * 2 * width + column;
    store<N>(gate, to);
    store<N>(value, to + width);
  }
}

dim3 blocks_for(std::int64_t rows, int width, int pack) {
  return {blocks_of(width / pack, kThreads), static_cast<unsigned>(std::min(rows, kGridRows))};
}

}  // namespace

template <typename T>
void swiglu_forward(const T* x, T* out, std::int64_t rows, int width, cudaStream_t stream) {
  with_pack<T>(width, [&]<int N>() {
    forward_kernel<N><<<blocks_for(rows, width, N), kThreads, 0, stream>>>(x, out, rows, width);
  });
}

template <typename T>
void swiglu_backward(const T* x, const T* grad_out, T* grad_x, std::int64_t rows, int width,
                     cudaStream_t stream) {
  with_pack<T>(width, [&]<int N>() {
    backward_kernel<N><<<blocks_for(rows, width, N), kThreads, 0, stream>>>(x, grad_out, grad_x, rows, width);
  });
}

#define TWOBW_KERNELS(T)                                                       \
  template void swiglu_forward(const T*, T*, std::int64_t, int, cudaStream_t); \
  template void swiglu_backward(const T*, const T*, T*, std::int64_t, int, cudaStream_t);
TWOBW_FOR_ELEMENT_TYPES(TWOBW_KERNELS)
#undef TWOBW_KERNELS

}  // namespace twobw::models::cuda
