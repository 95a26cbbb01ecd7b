// The end of a product's tiles: one warp adds up what all others have made of a tile, and writes it. The bits of
// Outputs.
#pragma once

#include "models/cuda/step_tiles.cuh"

namespace twobw::models::cuda::narrow {

// What a lane writes of a tile: items lane, lane + kWarp and so on, which count half by half (gated: once), row
// by row, column by column.
template <bool Gated, typename T>
struct TileEnd {
  static constexpr int kEach = kWide<Gated> * kMostFewRows / kWarp;
  float added[kEach] = {}, bias[kEach] = {};

  // Where an item lies in the sums' rows of kTile; whether it is one, and where it is written.
  static __device__ bool exists(const FewRows<T>& product, int first, int item) {
    return item < kWide<Gated> * product.rows && first + column_of(product, item) < product.columns;
  }
  static __device__ int column_of(const FewRows<T>& product, int item) {
    return item % kTile + (Gated ? 0 : item / (kTile * product.rows) * kTile);
  }
  static __device__ std::int64_t place_of(const FewRows<T>& product, int first, int item) {
    const int row = item % (kTile * product.rows) / kTile;
    return row * product.columns + first + column_of(product, item);
  }

  // Before it is needed.
  __device__ void read_addends(const FewRows<T>& product, int first, int lane) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int item = lane + i * kWarp;
      if (!exists(product, first, item)) continue;
      if (product.added != nullptr)
        added[i] = to_float(__ldcg(product.added + place_of(product, first, item)));
      if (product.bias != nullptr) bias[i] = to_float(product.bias[first + column_of(product, item)]);
    }
  }

  // In the order of multiply_tiles(): a warp's two halves, then the warps.
  static __device__ float total(const float* sums, int each) {
    float parts[kSharing], total = 0;
#pragma unroll
    for (int warp = 0; warp < kSharing; ++warp) parts[warp] = sums[warp * each];
#pragma unroll
    for (int warp = 0; warp < kSharing; warp += 2) total += parts[warp] + parts[warp + 1];
    return total;
  }
  __device__ void write(const FewRows<T>& product, int first, int lane, const float* sums) const {
    const int each = kOperand * product.rows;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int item = lane + i * kWarp;
      if (!exists(product, first, item)) continue;
      float result = total(sums + item, each);
      if constexpr (Gated) {
        const float value = total(sums + item + kTile * product.rows, each);
        const float gate = to_float(from_float<T>(result));
        result = to_float(from_float<T>(value)) * gate * __fdividef(1.0f, 1.0f + expf(-gate));
      }
      if (product.added != nullptr) result += added[i];
      if (product.bias != nullptr) result += bias[i];
      product.out[place_of(product, first, item)] = from_float<T>(result);
    }
  }
};

// The tiles of a block, every `stride`th from the `first`. `early`: what is added to the first, null where it
// is still to be read. Gives the place of the next tile's sums.
template <bool Gated, typename T>
__device__ __forceinline__ Place end_tiles(const FewRows<T>& product, const TileSums& sums, Place place,
                                           int first, int stride, int lane, const TileEnd<Gated, T>* early) {
  const auto columns = static_cast<int>(product.columns);
#pragma unroll 1
  for (int at = first * kWide<Gated>; at < columns; at += stride * kWide<Gated>) {
    TileEnd<Gated, T> end;
    if (early != nullptr) {
      end = *early;
      early = nullptr;
    } else {
      end.read_addends(product, at, lane);
    }
    await_phase(sums.there(place.index), place.parity);
    end.write(product, at, lane, sums.of(place.index, product.rows));
    __syncwarp();
    if (lane == 0) arrive(sums.added(place.index));
    place.advance(TileSums::kCount);
  }
  return place;
}

}  // namespace twobw::models::cuda::narrow
