// Tiles of a product whose weights come as a stream, by all warps of a block that work: each makes its part
// of a tile's sums and goes on. The bits of multiply_tiles().
#pragma once

#include "models/cuda/few_rows_tiles.cuh"
#include "models/cuda/weight_stream.cuh"

namespace twobw::models::cuda::narrow {

// The warps' sums of two tiles, [2, warps, halves of an operand, rows, kTile], and two barriers of each: that
// all are there, and that they were added up.
struct TileSums {
  static constexpr int kCount = 2;
  float* sums;
  unsigned barriers;  // address in shared memory

  __device__ float* of(int place, int rows) const { return sums + place * kSharing * kOperand * rows; }
  __device__ unsigned there(int place) const { return barriers + place * 16; }
  __device__ unsigned added(int place) const { return barriers + place * 16 + 8; }
  __device__ void begin() const {
    for (int place = 0; place < kCount; ++place) {
      begin_barrier(there(place), kSharing);
      begin_barrier(added(place), 1);
    }
  }
  static TWOBW_HOST_DEVICE int bytes(int rows) {
    return kCount * kSharing * kOperand * rows * static_cast<int>(sizeof(float));
  }
};

// Warp 2w + h makes what warp w of multiply_tiles() sums up in its half h.
template <bool Gated>
struct Share {
  static constexpr int kApart = Gated ? kWarps * kGroupElements<true> : 2 * kChunk;  // its chunks of a stage

  static __device__ int begin(int warp) { return warp / 2 * kGroupElements<Gated> + warp % 2 * kChunk; }
};

// What a lane multiplies of a stage. `packs`: its first, `x`: of its row; addresses in shared memory. `left`:
// elements of the column from the first chunk on; what is behind them is no weight, and no row has as much.
// Lanes without a row multiply what they have, and nobody uses it.
template <bool Gated>
struct StagePacks {
  uint4 a[2][2], b[2] = {};

  __device__ __forceinline__ void read(unsigned packs, unsigned x, bool has_row) {
    constexpr int kApart = 2 * Share<Gated>::kApart;
#pragma unroll
    for (int chunk = 0; chunk < 2; ++chunk) {
      a[chunk][0] = read_shared(packs + chunk * kApart);
      a[chunk][1] = read_shared(packs + chunk * kApart + kToSecond);
      if (has_row) b[chunk] = read_shared(x + chunk * kApart);
    }
  }
  __device__ __forceinline__ void read_end(unsigned packs, unsigned x, bool has_row, int left, int rest) {
    constexpr int kApart = 2 * Share<Gated>::kApart;
#pragma unroll
    for (int chunk = 0; chunk < 2; ++chunk) {
      const int behind = chunk * Share<Gated>::kApart;
      a[chunk][0] = a[chunk][1] = b[chunk] = make_uint4(0, 0, 0, 0);
      if (behind >= left) continue;
      if (has_row) b[chunk] = read_shared(x + chunk * kApart);
      if (behind + rest * kPack >= left) continue;
      a[chunk][0] = read_shared(packs + chunk * kApart);
      a[chunk][1] = read_shared(packs + chunk * kApart + kToSecond);
    }
  }
  template <typename T>
  __device__ __forceinline__ void multiply_into(float (&sum)[4], T) const {
#pragma unroll
    for (int chunk = 0; chunk < 2; ++chunk) {
      const uint4 &first = a[chunk][0], &second = a[chunk][1];
      multiply(sum, first.x, second.x, first.y, second.y, b[chunk].x, b[chunk].y, T{});
      multiply(sum, first.z, second.z, first.w, second.w, b[chunk].z, b[chunk].w, T{});
    }
  }
};

// The tiles of a block, every `stride`th from the `first`; `thread` counts those who work. Gives the place of
// the next tile's sums.
template <bool Gated, typename T>
__device__ __forceinline__ Place multiply_streamed(const FewRows<T>& product, const T* staged,
                                                   const TileSums& sums, Place sums_place,
                                                   StreamedWeights& weights, int thread, int first,
                                                   int stride) {
  const auto in = static_cast<int>(product.in), columns = static_cast<int>(product.columns);
  const int rows = product.rows, row_stride = Layout::of<Gated>(in).stride;
  const int warp = thread / kWarp, lane = thread % kWarp, column = lane / 4, rest = lane % 4;
  const int begin = Share<Gated>::begin(warp);
  const bool has_row = column < rows;
  const unsigned x = shared_address(staged) + (column * row_stride + begin + rest * kPack) * 2;
  const int own_packs = piece_of(column) + (begin + rest * kPack) * 2;
#pragma unroll 1
  for (int at = first * kWide<Gated>; at < columns; at += stride * kWide<Gated>) {
    float sum[4] = {};
    StagePacks<Gated> read;
#pragma unroll 1
    for (int k = 0; k < in; k += kStageElements) {
      const unsigned packs = weights.await_next() + own_packs;
      if (in - k >= kStageElements) {
        read.read(packs, x + k * 2, has_row);
      } else {
        read.read_end(packs, x + k * 2, has_row, in - k - begin, rest);
      }
      weights.release();
      read.multiply_into(sum, T{});
    }
    await_phase(sums.added(sums_place.index), sums_place.parity ^ 1);
    float* own = sums.of(sums_place.index, rows) + warp * kOperand * rows;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = 2 * rest + i % 2;
      if (row < rows) own[(i / 2 * rows + row) * kTile + column] = sum[i];
    }
    __syncwarp();
    if (lane == 0) arrive(sums.there(sums_place.index));
    sums_place.advance(TileSums::kCount);
  }
  return sums_place;
}

}  // namespace twobw::models::cuda::narrow
