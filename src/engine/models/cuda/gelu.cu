#include "engine/models/cuda/block.cuh"
#include "engine/models/kernels_cuda.h"

namespace twobw::models::cuda {
namespace {

constexpr int kThreads = 256;

struct TanhGelu {
  static constexpr float kRoot = 0.7978845608028654f;  // sqrt(2 / pi)
  static constexpr float kCubic = 0.044715f;

  static __device__ __forceinline__ float value(float x) {
    return 0.5f * x * (1.0f + tanhf(kRoot * (x + kCubic * x * x * x)));
  }
  static __device__ __forceinline__ float slope(float x) {
    const float t = tanhf(kRoot * (x + kCubic * x * x * x));
    return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * kRoot * (1.0f + 3.0f * kCubic * x * x);
  }
};

struct ErfGelu {
  static constexpr float kRootHalf = 0.7071067811865476f;  // sqrt(1 / 2)
  static constexpr float kDensity = 0.3989422804014327f;   // of the normal distribution at 0

  static __device__ __forceinline__ float value(float x) { return 0.5f * x * (1.0f + erff(kRootHalf * x)); }
  static __device__ __forceinline__ float slope(float x) {
    return 0.5f * (1.0f + erff(kRootHalf * x)) + x * kDensity * __expf(-0.5f * x * x);
  }
};

template <typename Kind, int N, typename T>
__global__ void __launch_bounds__(kThreads) forward_kernel(const T* x, T* out, std::int64_t n) {
  const std::int64_t at = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N;
  if (at >= n) return;
  float values[N];
  load<N>(x + at, values);
#pragma unroll
  for (int i = 0; i < N; ++i) values[i] = Kind::value(values[i]);
  store<N>(values, out + at);
}

template <typename Kind, int N, typename T>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(const T* x, const T* grad_out, T* grad_x, std::int64_t n) {
  const std::int64_t at = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N;
  if (at >= n) return;
  float values[N], gradient[N];
  load<N>(x + at, values);
  load<N>(grad_out + at, gradient);
#pragma unroll
  for (int i = 0; i < N; ++i) gradient[i] *= Kind::slope(values[i]);
  store<N>(gradient, grad_x + at);
}

}  // namespace

template <typename T>
void gelu_forward(const T* x, T* out, std::int64_t n, cudaStream_t stream, Gelu kind) {
  with_pack<T>(n, [&]<int N>() {
    const unsigned blocks = blocks_of(n, kThreads * N);
    if (kind == Gelu::Tanh)
      forward_kernel<TanhGelu, N><<<blocks, kThreads, 0, stream>>>(x, out, n);
    else
      forward_kernel<ErfGelu, N><<<blocks, kThreads, 0, stream>>>(x, out, n);
  });
}

template <typename T>
void gelu_backward(const T* x, const T* grad_out, T* grad_x, std::int64_t n, cudaStream_t stream, Gelu kind) {
  with_pack<T>(n, [&]<int N>() {
    const unsigned blocks = blocks_of(n, kThreads * N);
    if (kind == Gelu::Tanh)
      backward_kernel<TanhGelu, N><<<blocks, kThreads, 0, stream>>>(x, grad_out, grad_x, n);
    else
      backward_kernel<ErfGelu, N><<<blocks, kThreads, 0, stream>>>(x, grad_out, grad_x, n);
  });
}

#define TWOBW_KERNELS(T)                                                      \
  template void gelu_forward(const T*, T*, std::int64_t, cudaStream_t, Gelu); \
  template void gelu_backward(const T*, const T*, T*, std::int64_t, cudaStream_t, Gelu);
TWOBW_FOR_ELEMENT_TYPES(TWOBW_KERNELS)
#undef TWOBW_KERNELS

}  // namespace twobw::models::cuda
