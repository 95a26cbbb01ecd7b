// What the blocks of a product of few rows do with its tiles: rows come to shared memory, normed where there
// are gains; warps sum up what they share of a tile's columns; one of them writes the tile.
#pragma once

#include "models/cuda/few_rows_weights.cuh"

namespace twobw::models::cuda::narrow {

template <typename T>
__device__ __forceinline__ void unpack(const uint4& raw, float (&to)[kPack]) {
  const auto pack = *reinterpret_cast<const Pack<T, kPack>*>(&raw);
#pragma unroll
  for (int i = 0; i < kPack; ++i) to[i] = to_float(pack.values[i]);
}

// Where a pack of a row lies in the block's shared memory.
template <typename T>
__device__ __forceinline__ uint4* staged_pack(T* staged, const Layout& layout, int row, int pack) {
  return reinterpret_cast<uint4*>(staged + row * layout.stride + pack * kPack);
}

// Up to Rows rows to shared memory, Packs packs of each by a thread at once: all are asked for before the
// first is used. The sums of their squares are made in the same order whatever these are.
template <bool Normed, int Rows, int Packs, typename T>
__device__ __forceinline__ void copy_rows(const FewRows<T>& product, const Layout& layout, T* staged,
                                          float (&squares)[kMostFewRows]) {
  const auto packs = static_cast<int>(product.in / kPack);
  for (int first = static_cast<int>(threadIdx.x); first < layout.padded / kPack; first += Packs * kThreads) {
    uint4 raw[Packs][Rows];
#pragma unroll
    for (int i = 0; i < Packs; ++i) {
      const int pack = first + i * kThreads;
#pragma unroll
      for (int row = 0; row < Rows; ++row) {
        raw[i][row] = make_uint4(0, 0, 0, 0);
        if (row < product.rows && pack < packs)
          raw[i][row] = __ldcg(reinterpret_cast<const uint4*>(product.x + row * product.in) + pack);
      }
    }
#pragma unroll
    for (int i = 0; i < Packs; ++i) {
      const int pack = first + i * kThreads;
      if (pack >= layout.padded / kPack) continue;
#pragma unroll
      for (int row = 0; row < Rows; ++row) {
        if (row >= product.rows) continue;
        *staged_pack(staged, layout, row, pack) = raw[i][row];
        if constexpr (Normed) {
          float x[kPack];
          unpack<T>(raw[i][row], x);
#pragma unroll
          for (int v = 0; v < kPack; ++v) squares[row] = fmaf(x[v], x[v], squares[row]);
        }
      }
    }
  }
}

// The block's own copy of the rows, normed where there are gains: this thread's are in `gains` once
// await_gains() has returned. `sync` is a barrier of the kThreads threads.
template <bool Normed, typename T, typename AwaitGains, typename Sync>
__device__ __forceinline__ void stage_rows(const FewRows<T>& product, const Layout& layout, T* staged,
                                           const uint4* gains, AwaitGains await_gains, Sync sync) {
  __shared__ float sums[kMostFewRows][kWarps];
  const auto thread = static_cast<int>(threadIdx.x);
  float squares[kMostFewRows] = {};
  if (product.rows == 1) {
    copy_rows<Normed, 1, 8>(product, layout, staged, squares);
  } else if (product.rows <= 4) {
    copy_rows<Normed, 4, 2>(product, layout, staged, squares);
  } else {
    copy_rows<Normed, kMostFewRows, 1>(product, layout, staged, squares);
  }
  if constexpr (Normed) {
    const auto packs = static_cast<int>(product.in / kPack);
#pragma unroll
    for (int row = 0; row < kMostFewRows; ++row) {
      if (row >= product.rows) continue;
      const float sum = warp_sum(squares[row]);
      if (thread % kWarp == 0) sums[row][thread / kWarp] = sum;
    }
    await_gains();
    sync();
    for (int row = 0; row < product.rows; ++row) {
      float sum = 0;
#pragma unroll
      for (int warp = 0; warp < kWarps; ++warp) sum += sums[row][warp];
      const float scale = rsqrtf(sum / static_cast<float>(product.in) + product.eps);
      for (int pack = thread; pack < packs; pack += kThreads) {
        uint4* place = staged_pack(staged, layout, row, pack);
        float x[kPack], gain[kPack];
        unpack<T>(*place, x);
        unpack<T>(gains[pack], gain);
#pragma unroll
        for (int i = 0; i < kPack; ++i) x[i] *= scale * gain[i];
        store<kPack>(x, reinterpret_cast<T*>(place));
      }
    }
  }
  sync();
}

// What a lane writes of a tile: up to two sums, as `item` = lane and lane + kWarp count them by row and
// column.
template <bool Gated, typename T>
struct Outputs {
  static constexpr int kEach = kItems / kWarp;
  float added[kEach] = {}, bias[kEach] = {};

  static __device__ bool exists(const FewRows<T>& product, std::int64_t first, int item) {
    return item < kTile * product.rows && first + item % kTile < product.columns;
  }
  static __device__ std::int64_t place_of(const FewRows<T>& product, std::int64_t first, int item) {
    return item / kTile * product.columns + first + item % kTile;
  }

  // Before it is needed.
  __device__ void read_addends(const FewRows<T>& product, std::int64_t first, int lane) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int item = lane + i * kWarp;
      if (!exists(product, first, item)) continue;
      if (product.added != nullptr)
        added[i] = to_float(__ldcg(product.added + place_of(product, first, item)));
      if (product.bias != nullptr) bias[i] = to_float(product.bias[first + item % kTile]);
    }
  }

  // The warps' sums in their order: [warps, 1, or gates and values, items].
  __device__ void write(const FewRows<T>& product, std::int64_t first, int lane, const float* sums) const {
    const int items = kTile * product.rows, each = Gated ? 2 * items : items;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int item = lane + i * kWarp;
      if (!exists(product, first, item)) continue;
      float total = 0;
#pragma unroll
      for (int warp = 0; warp < kWarps; ++warp) total += sums[warp * each + item];
      if constexpr (Gated) {
        float value = 0;
#pragma unroll
        for (int warp = 0; warp < kWarps; ++warp) value += sums[warp * each + items + item];
        const float gate = to_float(from_float<T>(total));
        total = to_float(from_float<T>(value)) * gate * __fdividef(1.0f, 1.0f + expf(-gate));
      }
      if (product.added != nullptr) total += added[i];
      if (product.bias != nullptr) total += bias[i];
      product.out[place_of(product, first, item)] = from_float<T>(total);
    }
  }
};

// The tiles of a block, every `stride`th from the `first`, whose groups come from `weights` in this order.
template <bool Gated, typename T, typename Weights, typename Sync>
__device__ __forceinline__ void multiply_tiles(const FewRows<T>& product, const Layout& layout,
                                               const T* staged, float* sums, Weights& weights, int first,
                                               int stride, Sync sync) {
  const auto thread = static_cast<int>(threadIdx.x), warp = thread / kWarp, lane = thread % kWarp;
  const int column = lane / 4, rest = lane % 4;
  // Sums of rows that there are not are made of the last's, and not used.
  const T* x = staged + min(column, product.rows - 1) * layout.stride + rest * kPack;
  const std::int64_t step = static_cast<std::int64_t>(stride) * kTile;
  int tile = 0;
  for (std::int64_t at = static_cast<std::int64_t>(first) * kTile; at < product.columns; at += step, ++tile) {
    Outputs<Gated, T> outputs;
    const bool writes = tile % kWarps == warp;
    if (writes) outputs.read_addends(product, at, lane);
    float sum[2][4] = {};
    for (int group = warp; group < layout.groups; group += kWarps) {
      weights.await_next();
      multiply_group<Gated>(weights.packs(), x + group * kGroupElements<Gated>, sum);
      weights.fetch_next();
      weights.look_for_end();
    }
    // Two tiles' sums lie side by side: these are overwritten after all have come to the next tile's end.
    const int items = kTile * product.rows, each = Gated ? 2 * items : items;
    float *of_tile = sums + tile % 2 * kWarps * each, *own = of_tile + warp * each;
#pragma unroll
    for (int i = 0; i < (Gated ? 4 : 2); ++i) {
      const int row = 2 * rest + i % 2;
      if (row < product.rows) own[i / 2 * items + row * kTile + column] = sum[0][i] + sum[1][i];
    }
    sync();
    if (writes) outputs.write(product, at, lane, of_tile);
  }
}

}  // namespace twobw::models::cuda::narrow
