// The end of a product's tiles: one warp adds up what all others have made of a tile, and writes it. The bits
// of Outputs.
#pragma once

#include "models/cuda/step_tiles.cuh"

namespace twobw::models::cuda::narrow {

// What a lane writes of a product's tiles: items lane, lane + kWarp and so on, which count half by half
// (gated: once), row by row, column by column. All that is the same for every tile is known before the first.
template <bool Gated, typename T>
class TileEnds {
 public:
  static constexpr int kEach = kWide<Gated> * kMostFewRows / kWarp;

  // What is added to a tile's sums.
  struct Addends {
    float added[kEach] = {}, bias[kEach] = {};
  };

  __device__ TileEnds(const FewRows<T>& product, int lane)
      : added_(product.added),
        bias_(product.bias),
        out_(product.out),
        columns_(static_cast<int>(product.columns)),
        each_(kOperand * product.rows),
        to_values_(kTile * product.rows),
        lane_(lane) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int item = lane + i * kWarp;
      const bool is_second = !Gated && item >= to_values_;
      const int row = (item - (is_second ? to_values_ : 0)) / kTile;
      column_[i] = item % kTile + (is_second ? kTile : 0);
      if (item >= kWide<Gated> * product.rows) column_[i] = columns_;
      from_row_[i] = static_cast<std::int64_t>(row) * columns_ + column_[i];
    }
  }

  // Of the tile whose first column this is; before they are needed.
  __device__ Addends read_addends(int first) const {
    Addends addends;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (first + column_[i] >= columns_) continue;
      if (added_ != nullptr) addends.added[i] = to_float(__ldcg(added_ + from_row_[i] + first));
      if (bias_ != nullptr) addends.bias[i] = to_float(bias_[first + column_[i]]);
    }
    return addends;
  }

  __device__ void write(int first, const Addends& addends, const float* sums) const {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (first + column_[i] >= columns_) continue;
      const float* of_item = sums + lane_ + i * kWarp;
      float result = total(of_item);
      if constexpr (Gated) {
        const float value = total(of_item + to_values_), gate = to_float(from_float<T>(result));
        result = to_float(from_float<T>(value)) * gate * __fdividef(1.0f, 1.0f + expf(-gate));
      }
      if (added_ != nullptr) result += addends.added[i];
      if (bias_ != nullptr) result += addends.bias[i];
      out_[from_row_[i] + first] = from_float<T>(result);
    }
  }

 private:
  // In the order of multiply_tiles(): a warp's two halves, then the warps.
  __device__ float total(const float* sums) const {
    float parts[kSharing], total = 0;
#pragma unroll
    for (int warp = 0; warp < kSharing; ++warp) parts[warp] = sums[warp * each_];
#pragma unroll
    for (int warp = 0; warp < kSharing; warp += 2) total += parts[warp] + parts[warp + 1];
    return total;
  }

  const T *added_, *bias_;
  T* out_;
  int columns_, each_, to_values_, lane_;
  int column_[kEach];  // in a tile; as many as the product has where there is no item
  std::int64_t from_row_[kEach];
};

// The tiles of a block, every `stride`th from the `first`. `early`: what is added to the first, null where it
// is still to be read. Gives the place of the next tile's sums.
template <bool Gated, typename T>
__device__ __forceinline__ Place end_tiles(const FewRows<T>& product, const TileSums& sums, Place place,
                                           int first, int stride, int lane,
                                           const typename TileEnds<Gated, T>::Addends* early) {
  const TileEnds<Gated, T> ends(product, lane);
  const int columns = static_cast<int>(product.columns), rows = product.rows;
#pragma unroll 1
  for (int at = first * kWide<Gated>; at < columns; at += stride * kWide<Gated>) {
    typename TileEnds<Gated, T>::Addends addends;
    if (early != nullptr) {
      addends = *early;
      early = nullptr;
    } else {
      addends = ends.read_addends(at);
    }
    await_phase(sums.there(place.index), place.parity);
    ends.write(at, addends, sums.of(place.index, rows));
    __syncwarp();
    if (lane == 0) arrive(sums.added(place.index));
    place.advance(TileSums::kCount);
  }
  return place;
}

}  // namespace twobw::models::cuda::narrow
