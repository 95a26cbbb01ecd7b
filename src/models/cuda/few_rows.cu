#include <algorithm>

#include "models/cuda/block.cuh"
#include "models/decode_kernels_cuda.h"

namespace twobw::models::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kUnroll = 4;  // packs of weights that a thread has on their way

// 16 bytes of weights, which nobody reads again before they have left the cache.
template <typename T>
__device__ __forceinline__ uint4 load_once(const T* from) {
  return __ldcs(reinterpret_cast<const uint4*>(from));
}
template <typename T>
__device__ __forceinline__ void unpack(const uint4& raw, float (&to)[kFullPack<T>]) {
  const auto pack = *reinterpret_cast<const Pack<T, kFullPack<T>>*>(&raw);
#pragma unroll
  for (int i = 0; i < kFullPack<T>; ++i) to[i] = to_float(pack.values[i]);
}

// `warps` warps a column, each of which takes every warps-th stretch of kWarp packs; a block has
// kWarps / warps columns.
template <int Rows, typename T>
__global__ void __launch_bounds__(kThreads) few_rows_kernel(FewRows<T> product, int warps) {
  constexpr int N = kFullPack<T>;
  __shared__ float sums[kWarps][Rows];
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const int columns = kWarps / warps;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * columns + warp / warps;
  float sum[Rows] = {};
  if (column < product.columns) {
    const T* weight = product.weight + column * product.in;
    const auto packs = static_cast<int>(product.in / N);
    const int stride = warps * kWarp;
    for (int first = warp % warps * kWarp + lane; first < packs; first += stride * kUnroll) {
      uint4 raw[kUnroll];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        if (first + u * stride < packs) raw[u] = load_once(weight + (first + u * stride) * N);
      }
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        if (first + u * stride >= packs) continue;
        float w[N];
        unpack<T>(raw[u], w);
#pragma unroll
        for (int row = 0; row < Rows; ++row) {
          float x[N];
          load<N>(product.x + row * product.in + (first + u * stride) * N, x);
#pragma unroll
          for (int i = 0; i < N; ++i) sum[row] += x[i] * w[i];
        }
      }
    }
  }
#pragma unroll
  for (int row = 0; row < Rows; ++row) {
    const float whole = warp_sum(sum[row]);
    if (lane == 0) sums[warp][row] = whole;
  }
  __syncthreads();
  const auto item = static_cast<int>(threadIdx.x);
  if (item >= columns * Rows) return;
  const int own = item / Rows, row = item % Rows;
  const std::int64_t to = static_cast<std::int64_t>(blockIdx.x) * columns + own;
  if (to >= product.columns) return;
  float total = 0;
  for (int i = 0; i < warps; ++i) total += sums[own * warps + i][row];
  const std::int64_t at = row * product.columns + to;
  if (product.added != nullptr) total += to_float(product.added[at]);
  if (product.bias != nullptr) total += to_float(product.bias[to]);
  product.out[at] = from_float<T>(total);
}

// As many as keep enough bytes on their way where columns are few, and each still has work.
template <typename T>
int warps_a_column(const FewRows<T>& product) {
  constexpr int kBusy = 16;  // warps on a multiprocessor
  const std::int64_t wanted = static_cast<std::int64_t>(kBusy) * product.multiprocessors;
  const std::int64_t stretches = product.in / (kFullPack<T> * kWarp);
  int warps = 1;
  while (warps < kWarps && product.columns * warps < wanted * 2 && stretches >= 2 * warps * 2) warps *= 2;
  return warps;
}

template <int Rows, typename T>
void launch_few_rows(const FewRows<T>& product, cudaStream_t stream) {
  const int warps = warps_a_column(product), columns = kWarps / warps;
  const auto blocks = static_cast<unsigned>((product.columns + columns - 1) / columns);
  few_rows_kernel<Rows><<<blocks, kThreads, 0, stream>>>(product, warps);
}

}  // namespace

template <typename T>
bool few_rows_fits(std::int64_t rows, std::int64_t in) {
  return rows >= 1 && rows <= kMostFewRows && in % kFullPack<T> == 0;
}

template <typename T>
void few_rows_product(const FewRows<T>& product, cudaStream_t stream) {
  switch (product.rows) {
    case 1:
      return launch_few_rows<1>(product, stream);
    case 2:
      return launch_few_rows<2>(product, stream);
    case 3:
      return launch_few_rows<3>(product, stream);
    case 4:
      return launch_few_rows<4>(product, stream);
    case 5:
      return launch_few_rows<5>(product, stream);
    case 6:
      return launch_few_rows<6>(product, stream);
    case 7:
      return launch_few_rows<7>(product, stream);
    default:
      return launch_few_rows<8>(product, stream);
  }
}

template bool few_rows_fits<float>(std::int64_t, std::int64_t);
template bool few_rows_fits<__nv_bfloat16>(std::int64_t, std::int64_t);
template void few_rows_product(const FewRows<float>&, cudaStream_t);
template void few_rows_product(const FewRows<__nv_bfloat16>&, cudaStream_t);

}  // namespace twobw::models::cuda
