// How the rows of a step's product come to a block's shared memory: as they are, normed, or put together from
// what attention's parts have left. The bits of stage_rows(), and of attention in clusters.
#pragma once

#include "models/cuda/cached_join.cuh"
#include "models/cuda/step_rooms.cuh"

namespace twobw::models::cuda::step {

using narrow::kPack;
using narrow::Layout;

// All rows by all workers, with zeros behind them.
template <typename T>
__device__ __forceinline__ void stage_as_they_are(const FewRows<T>* given, Layout layout, T* staged) {
  constexpr int kAtOnce = 4;
  const FewRows<T>& product = *given;
  const int packs = static_cast<int>(product.in) / kPack, padded = layout.padded / kPack;
  const int all = product.rows * padded;
  for (int first = own_thread(); first < all; first += kAtOnce * kWorkers) {
    uint4 raw[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int item = first + i * kWorkers, row = item / padded, pack = item % padded;
      raw[i] = make_uint4(0, 0, 0, 0);
      if (item < all && pack < packs)
        raw[i] = __ldcg(reinterpret_cast<const uint4*>(product.x + row * product.in) + pack);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int item = first + i * kWorkers;
      if (item < all) *narrow::staged_pack(staged, layout, item / padded, item % padded) = raw[i];
    }
  }
  SyncWorkers()();
}

// Up to Rows rows of a group, Packs packs of each by a thread at once; the sums of their squares in the order
// of copy_rows().
template <int Rows, int Packs, typename T>
__device__ __forceinline__ void copy_rows_of(int group, int thread, const FewRows<T>& product,
                                             const Layout& layout, T* staged, float (&squares)[Rows]) {
  const int packs = static_cast<int>(product.in) / kPack, padded = layout.padded / kPack;
  for (int first = thread; first < padded; first += Packs * narrow::kThreads) {
    uint4 raw[Packs][Rows];
#pragma unroll
    for (int p = 0; p < Packs; ++p) {
      const int pack = first + p * narrow::kThreads;
#pragma unroll
      for (int i = 0; i < Rows; ++i) {
        const int row = group + i * kGroups;
        raw[p][i] = make_uint4(0, 0, 0, 0);
        if (row < product.rows && pack < packs)
          raw[p][i] = __ldcg(reinterpret_cast<const uint4*>(product.x + row * product.in) + pack);
      }
    }
#pragma unroll
    for (int p = 0; p < Packs; ++p) {
      const int pack = first + p * narrow::kThreads;
#pragma unroll
      for (int i = 0; i < Rows; ++i) {
        const int row = group + i * kGroups;
        if (row >= product.rows || pack >= padded) continue;
        *narrow::staged_pack(staged, layout, row, pack) = raw[p][i];
        float x[kPack];
        narrow::unpack<T>(raw[p][i], x);
#pragma unroll
        for (int v = 0; v < kPack; ++v) squares[i] = fmaf(x[v], x[v], squares[i]);
      }
    }
  }
}

template <int Rows, int Packs, typename T>
__device__ __forceinline__ void norm_rows_of(int group, const FewRows<T>& product, const Layout& layout,
                                             T* staged, const uint4* gains) {
  __shared__ float sums[kMostFewRows][narrow::kWarps];
  const int thread = own_thread() % narrow::kThreads;
  float squares[Rows] = {};
  copy_rows_of<Rows, Packs>(group, thread, product, layout, staged, squares);
#pragma unroll
  for (int i = 0; i < Rows; ++i) {
    const int row = group + i * kGroups;
    if (row >= product.rows) continue;
    const float sum = warp_sum(squares[i]);
    if (thread % kWarp == 0) sums[row][thread / kWarp] = sum;
  }
  SyncGroup{group}();
  for (int row = group; row < product.rows; row += kGroups) {
    float sum = 0;
#pragma unroll
    for (int warp = 0; warp < narrow::kWarps; ++warp) sum += sums[row][warp];
    const float scale = rsqrtf(sum / static_cast<float>(product.in) + product.eps);
    for (int pack = thread; pack < static_cast<int>(product.in) / kPack; pack += narrow::kThreads) {
      uint4* place = narrow::staged_pack(staged, layout, row, pack);
      float x[kPack], gain[kPack];
      narrow::unpack<T>(*place, x);
      narrow::unpack<T>(gains[pack], gain);
#pragma unroll
      for (int i = 0; i < kPack; ++i) x[i] *= scale * gain[i];
      store<kPack>(x, reinterpret_cast<T*>(place));
    }
  }
}

// A group has every second row.
template <typename T>
__device__ __forceinline__ void stage_normed(const FewRows<T>* given, Layout layout, T* staged,
                                             const uint4* gains) {
  const FewRows<T>& product = *given;
  const int group = own_thread() / narrow::kThreads;
  if (group < product.rows) {
    if (product.rows <= kGroups) {
      norm_rows_of<1, 4>(group, product, layout, staged, gains);
    } else {
      norm_rows_of<kMostFewRows / kGroups, 1>(group, product, layout, staged, gains);
    }
  }
  SyncWorkers()();
}

// Of every row: before what the attention has left can be read. A barrier stands before stage_joined().
template <typename T>
__device__ __forceinline__ void count_parts(const CachedAttention<T>* given, int* parts) {
  const auto row = own_thread();
  if (row < given->rows) parts[row] = cached::Part::of(*given, {.part = 0, .heads = 0, .row = row}).parts;
}

// Four elements of a query at a time, as join_as_cluster() has them. Somebody writes what attention would
// have.
template <typename T>
__device__ __forceinline__ void stage_joined(const CachedAttention<T>* given, Layout layout, T* staged,
                                             const int* parts_of) {
  constexpr int kAtOnce = 4, kParts = cached::kClusterParts;
  using Some = Pack<T, kAtOnce>;
  const CachedAttention<T>& attention = *given;
  const int size = attention.size, in = attention.queries * size, of_row = layout.padded / kAtOnce;
  const std::int64_t of_part = size + 2;
  for (int item = own_thread(); item < attention.rows * of_row; item += kWorkers) {
    const int row = item / of_row, i = item % of_row * kAtOnce, parts = parts_of[row];
    const int query = row * attention.queries + i / size;
    T* out = attention.out + static_cast<std::int64_t>(row) * in + i;
    Some some{};
    if (i < in && parts == 1) {
      const uint2 raw = __ldcg(reinterpret_cast<const uint2*>(out));
      some = *reinterpret_cast<const Some*>(&raw);
    } else if (i < in) {
      const float* from = attention.partial + static_cast<std::int64_t>(query) * attention.splits * of_part;
      float2 mixes[kParts][kAtOnce / 2] = {}, of_all[kParts] = {};
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        if (part >= parts) continue;
        of_all[part] = __ldcg(reinterpret_cast<const float2*>(from + part * of_part + size));
#pragma unroll
        for (int v = 0; v < kAtOnce / 2; ++v)
          mixes[part][v] = __ldcg(reinterpret_cast<const float2*>(from + part * of_part + i % size) + v);
      }
      float highest = -INFINITY, total = 0, sums[kAtOnce] = {};
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        if (part < parts) highest = fmaxf(highest, of_all[part].x);
      }
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        if (part >= parts) continue;
        const float factor = expf(of_all[part].x - (highest == -INFINITY ? 0.0f : highest));
        total += factor * of_all[part].y;
#pragma unroll
        for (int v = 0; v < kAtOnce / 2; ++v) {
          sums[2 * v] += factor * mixes[part][v].x;
          sums[2 * v + 1] += factor * mixes[part][v].y;
        }
      }
#pragma unroll
      for (int v = 0; v < kAtOnce; ++v) some.values[v] = from_float<T>(sums[v] / total);
      if (query % static_cast<int>(gridDim.x) == static_cast<int>(blockIdx.x))
        *reinterpret_cast<Some*>(out) = some;
    }
    *reinterpret_cast<Some*>(staged + row * layout.stride + i) = some;
  }
  SyncWorkers()();
}

}  // namespace twobw::models::cuda::step
