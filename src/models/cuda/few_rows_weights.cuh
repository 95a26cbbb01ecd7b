// How a product of few rows reads its weights: every thread has a ring in shared memory in which 16 packs of
// them or more are on their way at all times.
#pragma once

#include "base/host_device.h"
#include "models/cuda/async_copy.cuh"
#include "models/cuda/block.cuh"
#include "models/cuda/early_begin.cuh"
#include "models/cuda/tensor_core.cuh"
#include "models/decode_kernels_cuda.h"

namespace twobw::models::cuda::narrow {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kTile = 8;    // columns of a block at once; its warps share what their sums go over
constexpr int kChunk = 32;  // elements of a column that four lanes fetch at once, a pack each
constexpr int kPack = 8;
constexpr int kLoads = 4;                     // packs in a group of a thread's
constexpr int kItems = kTile * kMostFewRows;  // sums of a tile, at most

// Groups on their way: so many that memory does not idle while a kernel waits for the one before and takes
// its rows, where two blocks of them fit a multiprocessor; else fewer.
constexpr int kDeep = 6, kShallow = 4;
template <int Depth>
constexpr int kRing = Depth* kLoads* kThreads;  // packs of 16 bytes

// Elements that the sums of a group go over. Gated: half of its packs are of the values' columns.
template <bool Gated>
constexpr int kGroupElements = (Gated ? kLoads / 2 : kLoads) * kChunk;

// What lies in a block's shared memory: the ring, the rows, the warps' sums of two tiles and the gains. Rows
// are apart so that reading 8 of them at once meets all banks, and zero from `in` to the end of a group.
struct Layout {
  int groups, padded, stride;  // the latter in elements

  template <bool Gated>
  static TWOBW_HOST_DEVICE Layout of(std::int64_t in) {
    const auto groups = static_cast<int>((in + kGroupElements<Gated> - 1) / kGroupElements<Gated>);
    const int padded = groups * kGroupElements<Gated>;
    return {.groups = groups, .padded = padded, .stride = padded + kChunk};
  }
  template <bool Gated>
  static TWOBW_HOST_DEVICE int sums(int rows) {
    return 2 * kWarps * (Gated ? 2 : 1) * kTile * rows;
  }
  template <bool Normed, bool Gated, int Depth>
  std::size_t bytes(int rows) const {
    constexpr std::size_t kElement = 2;
    const auto elements = static_cast<std::size_t>(rows) * stride + (Normed ? padded : 0);
    return kRing<Depth> * sizeof(uint4) + elements * kElement + sums<Gated>(rows) * sizeof(float);
  }
};

// Adds the products of a group of a thread's packs `a` with the rows' `b`.
template <bool Gated, typename T>
__device__ __forceinline__ void multiply_packs(const uint4 (&a)[kLoads],
                                               const uint4 (&b)[Gated ? kLoads / 2 : kLoads],
                                               float (&sum)[2][4]) {
  constexpr int kChunks = Gated ? kLoads / 2 : kLoads;
#pragma unroll
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    const uint4& first = a[chunk * kLoads / kChunks];
    const uint4 second = Gated ? a[chunk * kLoads / kChunks + 1] : make_uint4(0, 0, 0, 0);
    multiply(sum[chunk % 2], first.x, second.x, first.y, second.y, b[chunk].x, b[chunk].y, T{});
    multiply(sum[chunk % 2], first.z, second.z, first.w, second.w, b[chunk].z, b[chunk].w, T{});
  }
}

// Adds the products of a group of this thread's packs, which is there, with the rows' elements `x`.
template <bool Gated, typename T>
__device__ __forceinline__ void multiply_group(const uint4* packs, const T* x, float (&sum)[2][4]) {
  constexpr int kChunks = Gated ? kLoads / 2 : kLoads;
  uint4 a[kLoads], b[kChunks];
#pragma unroll
  for (int load = 0; load < kLoads; ++load) a[load] = read_shared(packs + load * kThreads);
#pragma unroll
  for (int chunk = 0; chunk < kChunks; ++chunk) b[chunk] = read_shared(x + chunk * kChunk);
  __syncwarp();  // all are asked for before the first is used
  multiply_packs<Gated, T>(a, b, sum);
}

// The weights of a warp, in the order in which it takes them: every kWarps-th group of a tile, then those of
// the block's next tile. A lane has four columns' neighbours beside it, and its own column is lane / 4.
template <bool Gated, int Depth, typename T>
class Weights {
 public:
  __device__ Weights(const FewRows<T>& product, int groups, uint4* ring)
      : product_(product),
        groups_(groups),
        ring_(ring + threadIdx.x),
        policy_(read_once_policy()),
        column_(static_cast<std::int64_t>(blockIdx.x) * kTile + threadIdx.x % kWarp / 4),
        group_(static_cast<int>(threadIdx.x) / kWarp) {
    if (group_ >= groups_) column_ = product.columns;
#pragma unroll
    for (int place = 0; place < Depth; ++place) fetch_next();
  }

  // Until the oldest group is there; its packs, of this thread, are kThreads apart.
  __device__ void await_next() const {
    await_groups<Depth - 1>();
  }
  __device__ const uint4* packs() const {
    return ring_ + place_ * kLoads * kThreads;
  }

  // The group behind those on their way, which takes the place of the oldest.
  __device__ void fetch_next() {
    const bool exists = column_ < product_.columns;
    const T* from = product_.weight + (exists ? column_ * product_.in : 0);
#pragma unroll
    for (int load = 0; load < kLoads; ++load) {
      const int chunk = Gated ? load / 2 : load;
      const int k =
          group_ * kGroupElements<Gated> + chunk * kChunk + static_cast<int>(threadIdx.x % 4) * kPack;
      const bool has = exists && k < product_.in;
      const std::int64_t to_values = Gated && load % 2 == 1 ? product_.columns * product_.in : 0;
      fetch(ring_ + (place_ * kLoads + load) * kThreads, from + (has ? k + to_values : 0), has, policy_);
    }
    end_group();
    place_ = place_ + 1 < Depth ? place_ + 1 : 0;
    group_ += kWarps;
    if (group_ < groups_) return;
    group_ = static_cast<int>(threadIdx.x) / kWarp;
    column_ += static_cast<std::int64_t>(gridDim.x) * kTile;
  }

  // The next kernel begins when the last have been asked for. The threads of a warp come to the end together,
  // but for those past the last column.
  __device__ void look_for_end() {
    if (is_at_end_ || !__all_sync(~0u, column_ >= product_.columns)) return;
    is_at_end_ = true;
    let_next_begin();
  }

 private:
  const FewRows<T>& product_;
  int groups_;
  uint4* ring_;
  std::uint64_t policy_;
  std::int64_t column_;
  int group_, place_ = 0;
  bool is_at_end_ = false;
};

}  // namespace twobw::models::cuda::narrow
