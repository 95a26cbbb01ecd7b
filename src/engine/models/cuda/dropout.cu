// Dropout, and the attention weights that it applies to.
#include <cmath>

#include "engine/models/cuda/block.cuh"
#include "engine/models/kernels_cuda.h"

namespace twobw::models::cuda {
namespace {

constexpr int kDropThreads = 256;

// A thread four columns, whose bits are drawn together.
template <bool Whole, typename T>
__global__ void __launch_bounds__(kDropThreads) drop_kernel(Drop<T> drop) {
  const int groups = (drop.width + kGroup - 1) / kGroup;
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * kDropThreads + threadIdx.x;
  const std::int64_t row = thread / groups;
  if (row >= drop.rows) return;
  const auto group = static_cast<int>(thread - row * groups);
  const std::int64_t at = row * drop.width + kGroup * group;
  const int count = drop.width - kGroup * group;
  float values[kGroup], factors[kGroup];
  load_group<Whole>(drop.x + at, count, values);
  dropout_factors(mask_key(*drop.mask.key, drop.mask.site), mask_row(row, drop.n1, drop.n2),
                  static_cast<std::uint32_t>(group), drop.mask.rate, factors);
#pragma unroll
  for (int i = 0; i < kGroup; ++i) values[i] *= factors[i];
  if (drop.residual != nullptr) {
    float onto[kGroup];
    load_group<Whole>(drop.residual + at, count, onto);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) values[i] += onto[i];
  }
  store_group<Whole>(values, count, drop.out + at);
}

constexpr int kRows = 8;  // of a block, a warp each
constexpr int kThreads = kRows * kWarp;
constexpr int kStep = kGroup * kWarp;  // columns of a warp at a time

__device__ __forceinline__ std::int64_t row_of_warp() {
  return static_cast<std::int64_t>(blockIdx.x) * kRows + threadIdx.x / kWarp;
}

__device__ __forceinline__ int first_column() {
  return static_cast<int>(threadIdx.x % kWarp) * kGroup;
}

// The keys that the query of a row sees, at least one.
template <typename T>
__device__ __forceinline__ int keys_seen(const AttentionWeights<T>& of, std::int64_t row) {
  if (of.causal) return static_cast<int>(row % of.length) + 1;
  if (of.lengths == nullptr) return of.length;
  const std::int64_t length = of.lengths[row / of.length / of.heads];
  return static_cast<int>(length < 1 ? 1 : (length < of.length ? length : of.length));
}

// The first of them.
template <typename T>
__device__ __forceinline__ int first_seen(const AttentionWeights<T>& of, std::int64_t row) {
  if (of.positions == nullptr) return 0;
  const std::int64_t place = row % of.length, sequence = row / of.length / of.heads;
  return static_cast<int>(place - of.positions[sequence * of.length + place]);
}

template <typename T>
__device__ __forceinline__ void draw(const AttentionWeights<T>& of, std::uint64_t key, const MaskRow& place,
                                     int column, float (&factors)[kGroup]) {
  dropout_factors(key, place, static_cast<std::uint32_t>(column / kGroup), of.mask.rate, factors);
}

template <bool Whole, typename T>
__global__ void __launch_bounds__(kThreads) forward_kernel(AttentionWeights<T> of) {
  const std::int64_t row = row_of_warp();
  if (row >= of.rows()) return;  // the whole warp
  T* weights = of.weights + row * of.length;
  T* dropped = of.dropped + row * of.length;
  const int seen = keys_seen(of, row), first = first_seen(of, row);
  float values[kGroup];

  float top = -INFINITY;
  for (int column = first_column(); column < seen; column += kStep) {
    load_group<Whole>(weights + column, of.length - column, values);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      if (column + i >= first && column + i < seen) top = fmaxf(top, values[i]);
    }
  }
  top = warp_max(top);

  float sum = 0;
  for (int column = first_column(); column < seen; column += kStep) {
    load_group<Whole>(weights + column, of.length - column, values);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      if (column + i >= first && column + i < seen) sum += expf((values[i] - top) * of.scale);
    }
  }
  const float share = 1.0f / warp_sum(sum);

  const std::uint64_t key = mask_key(*of.mask.key, of.mask.site);
  const MaskRow place = mask_row(row, of.length, of.heads);
  for (int column = first_column(); column < of.length; column += kStep) {
    const int count = of.length - column;
    float factors[kGroup];
    load_group<Whole>(weights + column, count, values);
    draw(of, key, place, column, factors);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      const bool sees = column + i >= first && column + i < seen;
      values[i] = sees ? expf((values[i] - top) * of.scale) * share : 0.0f;
      factors[i] *= values[i];
    }
    store_group<Whole>(values, count, weights + column);
    store_group<Whole>(factors, count, dropped + column);
  }
}

// The gradient of scores, for weights w = softmax(scale * scores) with gradient g: scale * w * (g - sum of w
// g). g is the gradient of the dropped weights times the mask, which is drawn twice.
template <bool Whole, typename T>
__global__ void __launch_bounds__(kThreads) backward_kernel(AttentionWeights<T> of) {
  const std::int64_t row = row_of_warp();
  if (row >= of.rows()) return;  // the whole warp
  const T* weights = of.weights + row * of.length;
  T* gradient = of.gradient + row * of.length;
  const std::uint64_t key = mask_key(*of.mask.key, of.mask.site);
  const MaskRow place = mask_row(row, of.length, of.heads);
  float values[kGroup], slopes[kGroup], factors[kGroup];

  float sum = 0;
  for (int column = first_column(); column < of.length; column += kStep) {
    const int count = of.length - column;
    load_group<Whole>(weights + column, count, values);
    load_group<Whole>(gradient + column, count, slopes);
    draw(of, key, place, column, factors);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) sum += values[i] * (slopes[i] * factors[i]);
  }
  sum = warp_sum(sum);

  for (int column = first_column(); column < of.length; column += kStep) {
    const int count = of.length - column;
    load_group<Whole>(weights + column, count, values);
    load_group<Whole>(gradient + column, count, slopes);
    draw(of, key, place, column, factors);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) slopes[i] = of.scale * (values[i] * (slopes[i] * factors[i] - sum));
    store_group<Whole>(slopes, count, gradient + column);
  }
}

}  // namespace

template <typename T>
void drop(const Drop<T>& drop, cudaStream_t stream) {
  const unsigned blocks = blocks_of(drop.rows * ((drop.width + kGroup - 1) / kGroup), kDropThreads);
  if (aligned_for(drop.width, kGroup))
    drop_kernel<true><<<blocks, kDropThreads, 0, stream>>>(drop);
  else
    drop_kernel<false><<<blocks, kDropThreads, 0, stream>>>(drop);
}

template <typename T>
void attention_weights_forward(const AttentionWeights<T>& attention, cudaStream_t stream) {
  const unsigned blocks = blocks_of(attention.rows(), kRows);
  if (aligned_for(attention.length, kGroup))
    forward_kernel<true><<<blocks, kThreads, 0, stream>>>(attention);
  else
    forward_kernel<false><<<blocks, kThreads, 0, stream>>>(attention);
}

template <typename T>
void attention_weights_backward(const AttentionWeights<T>& attention, cudaStream_t stream) {
  const unsigned blocks = blocks_of(attention.rows(), kRows);
  if (aligned_for(attention.length, kGroup))
    backward_kernel<true><<<blocks, kThreads, 0, stream>>>(attention);
  else
    backward_kernel<false><<<blocks, kThreads, 0, stream>>>(attention);
}

#define TWOBW_KERNELS(T)                                                             \
  template void drop(const Drop<T>&, cudaStream_t);                                  \
  template void attention_weights_forward(const AttentionWeights<T>&, cudaStream_t); \
  template void attention_weights_backward(const AttentionWeights<T>&, cudaStream_t);
TWOBW_FOR_ELEMENT_TYPES(TWOBW_KERNELS)
#undef TWOBW_KERNELS

}  // namespace twobw::models::cuda
