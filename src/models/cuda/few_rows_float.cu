#include <algorithm>

#include "models/cuda/block.cuh"
#include "models/cuda/few_rows.cuh"

namespace twobw::models::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kPack = 4;    // floats that are read at once
constexpr int kUnroll = 4;  // packs of weights of a column that a thread has on their way
constexpr std::int64_t kNormedBytes = 40 << 10;  // of normed rows in a block's shared memory

// Packs of a column's weights, which nobody reads again before they have left the cache.
__device__ __forceinline__ void fetch(const float* weight, int first, int stride, int packs,
                                      float4 (&raw)[kUnroll]) {
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const int pack = first + u * stride;
    if (pack < packs) raw[u] = __ldcs(reinterpret_cast<const float4*>(weight + pack * kPack));
  }
}

// Adds those packs times every row's.
template <int Rows>
__device__ __forceinline__ void add_products(const float4 (&raw)[kUnroll], const float* x, std::int64_t in,
                                             int first, int stride, int packs, float (&sum)[Rows]) {
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const int pack = first + u * stride;
    if (pack >= packs) continue;
    const float w[kPack] = {raw[u].x, raw[u].y, raw[u].z, raw[u].w};
#pragma unroll
    for (int row = 0; row < Rows; ++row) {
      float values[kPack];
      load<kPack>(x + row * in + pack * kPack, values);
#pragma unroll
      for (int i = 0; i < kPack; ++i) sum[row] += values[i] * w[i];
    }
  }
}

// The block's own copy of the rows, normed.
template <int Rows>
__device__ __forceinline__ void norm_rows(const FewRows<float>& product, int packs, float* normed) {
  for (int row = 0; row < Rows; ++row) {
    const float* from = product.x + row * product.in;
    float square = 0;
    for (int pack = static_cast<int>(threadIdx.x); pack < packs; pack += kThreads) {
      float x[kPack];
      load<kPack>(from + pack * kPack, x);
#pragma unroll
      for (int i = 0; i < kPack; ++i) square += x[i] * x[i];
    }
    const float mean = block_sum<kThreads>(square, 0).x / static_cast<float>(product.in);
    const float scale = rsqrtf(mean + product.eps);
    for (int pack = static_cast<int>(threadIdx.x); pack < packs; pack += kThreads) {
      float x[kPack], gain[kPack];
      load<kPack>(from + pack * kPack, x);
      load<kPack>(product.gain + pack * kPack, gain);
#pragma unroll
      for (int i = 0; i < kPack; ++i) x[i] *= scale * gain[i];
      store<kPack>(x, normed + row * product.in + pack * kPack);
    }
    __syncthreads();
  }
}

// `warps` warps a column, each of which takes every warps-th stretch of kWarp packs, so that a block has
// kWarps / warps columns at once. The first weights are on their way while the rows are normed. Gated: a
// column of the output is made of two of the weights.
template <int Rows, bool Normed, bool Gated>
__global__ void __launch_bounds__(kThreads) few_rows_kernel(FewRows<float> product, int warps) {
  constexpr int kSums = Gated ? 2 * Rows : Rows;
  extern __shared__ float4 normed_room[];
  __shared__ float sums[kWarps][kSums];
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const int slots = kWarps / warps, slot = warp / warps, stride = warps * kWarp;
  const int start = warp % warps * kWarp + lane;
  const auto packs = static_cast<int>(product.in / kPack);
  const std::int64_t in = product.in;

  std::int64_t base = static_cast<std::int64_t>(blockIdx.x) * slots;
  float4 raw[kUnroll], gated[kUnroll];
  bool fetched = base + slot < product.columns;
  if (fetched) {
    fetch(product.weight + (base + slot) * in, start, stride, packs, raw);
    if constexpr (Gated)
      fetch(product.weight + (product.columns + base + slot) * in, start, stride, packs, gated);
  }
  const float* x = product.x;
  if constexpr (Normed) {
    auto* normed = reinterpret_cast<float*>(normed_room);
    norm_rows<Rows>(product, packs, normed);
    x = normed;
  }

  for (; base < product.columns; base += static_cast<std::int64_t>(gridDim.x) * slots) {
    const std::int64_t column = base + slot;
    float sum[Rows] = {}, gated_sum[Rows] = {};
    if (column < product.columns) {
      const float* weight = product.weight + column * in;
      const float* gated_weight = product.weight + (product.columns + column) * in;
      for (int first = start; first < packs; first += stride * kUnroll) {
        if (!fetched) {
          fetch(weight, first, stride, packs, raw);
          if constexpr (Gated) fetch(gated_weight, first, stride, packs, gated);
        }
        fetched = false;
        add_products<Rows>(raw, x, in, first, stride, packs, sum);
        if constexpr (Gated) add_products<Rows>(gated, x, in, first, stride, packs, gated_sum);
      }
    }
    fetched = false;
#pragma unroll
    for (int row = 0; row < Rows; ++row) {
      const float whole = warp_sum(sum[row]);
      if (lane == 0) sums[warp][row] = whole;
      if constexpr (Gated) {
        const float gated_whole = warp_sum(gated_sum[row]);
        if (lane == 0) sums[warp][Rows + row] = gated_whole;
      }
    }
    __syncthreads();
    const auto item = static_cast<int>(threadIdx.x);
    const int own = item / Rows, row = item % Rows;
    const std::int64_t to = base + own;
    if (item < slots * Rows && to < product.columns) {
      const std::int64_t at = row * product.columns + to;
      float total = 0;
      for (int i = 0; i < warps; ++i) total += sums[own * warps + i][row];
      if constexpr (Gated) {
        float value = 0;
        for (int i = 0; i < warps; ++i) value += sums[own * warps + i][Rows + row];
        const float gate = total;
        total = value * gate * __fdividef(1.0f, 1.0f + expf(-gate));
      }
      if (product.added != nullptr) total += product.added[at];
      if (product.bias != nullptr) total += product.bias[to];
      product.out[at] = total;
    }
    __syncthreads();
  }
}

// As many as keep enough bytes on their way where columns are few, and each still has work.
int warps_a_column(const FewRows<float>& product) {
  constexpr std::int64_t kBusy = 32;  // warps on a multiprocessor
  const std::int64_t wanted = kBusy * product.multiprocessors;
  const std::int64_t stretches = product.in / (kPack * kWarp);
  int warps = 1;
  while (warps < kWarps && product.columns * warps < wanted && stretches >= 4 * warps) warps *= 2;
  return warps;
}

template <int Rows, bool Normed, bool Gated>
void launch_few_rows(const FewRows<float>& product, cudaStream_t stream) {
  constexpr std::int64_t kBlocks = 8;  // on a multiprocessor, which go on to the next columns
  const int warps = warps_a_column(product), slots = kWarps / warps;
  const std::int64_t needed = (product.columns + slots - 1) / slots;
  const auto blocks = static_cast<unsigned>(std::min(needed, kBlocks * product.multiprocessors));
  const std::size_t room = Normed ? static_cast<std::size_t>(Rows * product.in) * sizeof(float) : 0;
  few_rows_kernel<Rows, Normed, Gated><<<blocks, kThreads, room, stream>>>(product, warps);
}

template <int Rows>
void launch_kind(const FewRows<float>& product, cudaStream_t stream) {
  if (product.gated) {
    launch_few_rows<Rows, true, true>(product, stream);
  } else if (product.gain != nullptr) {
    launch_few_rows<Rows, true, false>(product, stream);
  } else {
    launch_few_rows<Rows, false, false>(product, stream);
  }
}

}  // namespace

bool few_floats_fit(std::int64_t rows, std::int64_t in, bool normed) {
  const bool has_room = !normed || rows * in * static_cast<std::int64_t>(sizeof(float)) <= kNormedBytes;
  return in % kPack == 0 && has_room;
}

void few_floats_product(const FewRows<float>& product, cudaStream_t stream) {
  switch (product.rows) {
    case 1:
      return launch_kind<1>(product, stream);
    case 2:
      return launch_kind<2>(product, stream);
    case 3:
      return launch_kind<3>(product, stream);
    case 4:
      return launch_kind<4>(product, stream);
    case 5:
      return launch_kind<5>(product, stream);
    case 6:
      return launch_kind<6>(product, stream);
    case 7:
      return launch_kind<7>(product, stream);
    default:
      return launch_kind<8>(product, stream);
  }
}

}  // namespace twobw::models::cuda
