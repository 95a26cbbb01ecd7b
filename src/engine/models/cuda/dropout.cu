#include "engine/models/cuda/block.cuh"
#include "engine/models/kernels_cuda.h"

namespace twobw::models::cuda {
namespace {

constexpr int kThreads = 256;

// A thread four columns, whose bits are drawn together.
template <bool Whole, typename T>
__global__ void __launch_bounds__(kThreads) drop_kernel(Drop<T> drop) {
  const int groups = (drop.width + kGroup - 1) / kGroup;
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
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

}  // namespace

template <typename T>
void drop(const Drop<T>& drop, cudaStream_t stream) {
  const std::int64_t groups = drop.rows * ((drop.width + kGroup - 1) / kGroup);
  const auto blocks = static_cast<unsigned>((groups + kThreads - 1) / kThreads);
  if (aligned_for(drop.width, kGroup))
    drop_kernel<true><<<blocks, kThreads, 0, stream>>>(drop);
  else
    drop_kernel<false><<<blocks, kThreads, 0, stream>>>(drop);
}

template void drop(const Drop<float>&, cudaStream_t);
template void drop(const Drop<__nv_bfloat16>&, cudaStream_t);
template void drop(const Drop<__half>&, cudaStream_t);

}  // namespace twobw::models::cuda
