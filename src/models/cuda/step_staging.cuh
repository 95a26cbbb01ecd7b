// How the rows of a step's product come to a block's shared memory: as they are, normed, or put together from
// what attention's parts have left. The bits of stage_rows(), and of attention in clusters.
#pragma once

#include "models/cuda/cached_join.cuh"
#include "models/cuda/step_rooms.cuh"

namespace twobw::models::cuda::step {

using narrow::kPack;
using narrow::Layout;

// Where a pack of a product's rows comes from and goes to; known before the rows are there.
template <typename T>
struct RowPack {
  const uint4* from = nullptr;  // null: there is none, and zeros are staged
  uint4* to = nullptr;          // null: there is no such pack

  static __device__ RowPack of(const FewRows<T>& product, const Layout& layout, T* staged, int row,
                               int pack) {
    RowPack found;
    if (row >= product.rows || pack >= layout.padded / kPack) return found;
    found.to = narrow::staged_pack(staged, layout, row, pack);
    if (pack < static_cast<int>(product.in) / kPack)
      found.from = reinterpret_cast<const uint4*>(product.x + row * product.in) + pack;
    return found;
  }
  __device__ uint4 read() const { return from == nullptr ? make_uint4(0, 0, 0, 0) : __ldcg(from); }
};

template <typename T>
__device__ __forceinline__ Layout layout_of(const FewRows<T>& product) {
  return product.gated ? Layout::of<true>(product.in) : Layout::of<false>(product.in);
}

// All rows by all workers, with zeros behind them. As those below: every thread comes to sync_led() once, and
// the rows are there after it; they are staged for all when it returns.
template <typename T>
__device__ __forceinline__ void stage_as_they_are(const FewRows<T>& product, T* staged) {
  constexpr int kAtOnce = 4;
  const Layout layout = layout_of(product);
  const int padded = layout.padded / kPack, all = product.rows * padded;
  bool has_waited = false;
  for (int first = own_thread(); first < all || !has_waited; first += kAtOnce * kWorkers) {
    RowPack<T> packs[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int item = first + i * kWorkers;
      packs[i] = RowPack<T>::of(product, layout, staged, item / padded, item % padded);
    }
    if (!has_waited) sync_led();
    has_waited = true;
    uint4 raw[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) raw[i] = packs[i].read();
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (packs[i].to != nullptr) *packs[i].to = raw[i];
    }
  }
  SyncWorkers()();
}

// A row by every group of kThreads threads, and another after kGroups of them: up to Rows, of which a thread
// has Packs packs at once. The sums of their squares are made in the order of copy_rows().
template <int Rows, int Packs, typename T>
__device__ __forceinline__ void norm_rows_of(int group, const FewRows<T>& product, T* staged,
                                             const uint4* gains) {
  __shared__ float sums[kMostFewRows][narrow::kWarps];
  const Layout layout = layout_of(product);
  const int thread = own_thread() % narrow::kThreads, padded = layout.padded / kPack;
  const float in = static_cast<float>(product.in), eps = product.eps;
  float squares[Rows] = {};
  bool has_waited = false;
  for (int first = thread; first < padded || !has_waited; first += Packs * narrow::kThreads) {
    RowPack<T> packs[Packs][Rows];
#pragma unroll
    for (int p = 0; p < Packs; ++p) {
#pragma unroll
      for (int i = 0; i < Rows; ++i)
        packs[p][i] =
            RowPack<T>::of(product, layout, staged, group + i * kGroups, first + p * narrow::kThreads);
    }
    if (!has_waited) sync_led();
    has_waited = true;
    uint4 raw[Packs][Rows];
#pragma unroll
    for (int p = 0; p < Packs; ++p) {
#pragma unroll
      for (int i = 0; i < Rows; ++i) raw[p][i] = packs[p][i].read();
    }
#pragma unroll
    for (int p = 0; p < Packs; ++p) {
#pragma unroll
      for (int i = 0; i < Rows; ++i) {
        if (packs[p][i].to == nullptr) continue;
        *packs[p][i].to = raw[p][i];
        float x[kPack];
        narrow::unpack<T>(raw[p][i], x);
#pragma unroll
        for (int v = 0; v < kPack; ++v) squares[i] = fmaf(x[v], x[v], squares[i]);
      }
    }
  }
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
    const float scale = rsqrtf(sum / in + eps);
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
__device__ __forceinline__ void stage_normed(const FewRows<T>& product, T* staged, const uint4* gains) {
  const int group = own_thread() / narrow::kThreads;
  if (group >= product.rows) {
    sync_led();
  } else if (product.rows <= kGroups) {
    norm_rows_of<1, 4>(group, product, staged, gains);
  } else {
    norm_rows_of<kMostFewRows / kGroups, 1>(group, product, staged, gains);
  }
  SyncWorkers()();
}

// Four elements of a query, as join_as_cluster() has them: where attention's parts have left theirs.
template <typename T>
struct JoinedPack {
  static constexpr int kAtOnce = 4, kParts = cached::kClusterParts;
  using Some = Pack<T, kAtOnce>;
  const float* from = nullptr;  // null: there is none, and zeros are staged
  const float* of_all = nullptr;
  T* out = nullptr;
  Some* to = nullptr;  // null: there is no such pack
  int row = 0;
  bool writes = false;  // somebody writes what attention would have

  static __device__ JoinedPack of(const CachedAttention<T>& attention, const Layout& layout, T* staged,
                                  int item) {
    JoinedPack found;
    const int of_row = layout.padded / kAtOnce, size = attention.size, in = attention.queries * size;
    if (item >= attention.rows * of_row) return found;
    found.row = item / of_row;
    const int i = item % of_row * kAtOnce, head = i / size, query = found.row * attention.queries + head;
    found.to = reinterpret_cast<Some*>(staged + found.row * layout.stride + i);
    if (i >= in) return found;
    found.out = attention.out + static_cast<std::int64_t>(found.row) * in + i;
    const float* parts = attention.partial + static_cast<std::int64_t>(query) * attention.splits * (size + 2);
    found.from = parts + (i - head * size);
    found.of_all = parts + size;
    found.writes = query % static_cast<int>(gridDim.x) == static_cast<int>(blockIdx.x);
    return found;
  }

  __device__ Some join(int parts, std::int64_t of_part) const {
    float2 mixes[kParts][kAtOnce / 2] = {}, ends[kParts] = {};
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      if (part >= parts) continue;
      ends[part] = __ldcg(reinterpret_cast<const float2*>(of_all + part * of_part));
#pragma unroll
      for (int v = 0; v < kAtOnce / 2; ++v)
        mixes[part][v] = __ldcg(reinterpret_cast<const float2*>(from + part * of_part) + v);
    }
    float highest = -INFINITY, total = 0, sums[kAtOnce] = {};
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      if (part < parts) highest = fmaxf(highest, ends[part].x);
    }
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      if (part >= parts) continue;
      const float factor = expf(ends[part].x - (highest == -INFINITY ? 0.0f : highest));
      total += factor * ends[part].y;
#pragma unroll
      for (int v = 0; v < kAtOnce / 2; ++v) {
        sums[2 * v] += factor * mixes[part][v].x;
        sums[2 * v + 1] += factor * mixes[part][v].y;
      }
    }
    Some some;
#pragma unroll
    for (int v = 0; v < kAtOnce; ++v) some.values[v] = from_float<T>(sums[v] / total);
    return some;
  }
};

template <typename T>
__device__ __forceinline__ void stage_joined(const CachedAttention<T>& attention, T* staged, int* parts_of) {
  using Joined = JoinedPack<T>;
  const Layout layout = Layout::of<false>(attention.queries * attention.size);
  const int all = attention.rows * (layout.padded / Joined::kAtOnce);
  const std::int64_t of_part = attention.size + 2;
  const int own = own_thread();
  // Before what attention has left can be read.
  if (own < attention.rows)
    parts_of[own] = cached::Part::of(attention, {.part = 0, .heads = 0, .row = own}).parts;
  bool has_waited = false;
  for (int item = own; item < all || !has_waited; item += kWorkers) {
    const auto pack = Joined::of(attention, layout, staged, item);
    if (!has_waited) sync_led();
    has_waited = true;
    if (pack.to == nullptr) continue;
    typename Joined::Some some{};
    if (pack.from != nullptr) {
      const int parts = parts_of[pack.row];
      if (parts == 1) {
        const uint2 raw = __ldcg(reinterpret_cast<const uint2*>(pack.out));
        some = *reinterpret_cast<const typename Joined::Some*>(&raw);
      } else {
        some = pack.join(parts, of_part);
        if (pack.writes) *reinterpret_cast<typename Joined::Some*>(pack.out) = some;
      }
    }
    *pack.to = some;
  }
  SyncWorkers()();
}

}  // namespace twobw::models::cuda::step
