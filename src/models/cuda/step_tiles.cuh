// Tiles of a product whose weights come as a stream, by a group of a block's warps: the bits of
// multiply_tiles().
#pragma once

#include "models/cuda/few_rows_tiles.cuh"
#include "models/cuda/weight_stream.cuh"

namespace twobw::models::cuda::narrow {

// A group of a stage and of the rows, as a lane multiplies them.
template <bool Gated>
struct GroupPacks {
  static constexpr int kChunks = Gated ? kLoads / 2 : kLoads;
  uint4 a[kLoads], b[kChunks];

  // `packs`: the lane's first, `x`: of its row; addresses in shared memory. `left`: elements of the column
  // from the group on; what is behind them is no weight.
  __device__ __forceinline__ void read(unsigned packs, int to_values, unsigned x, int left, int rest) {
    constexpr int kBytes = kChunk * 2;
#pragma unroll
    for (int load = 0; load < kLoads; ++load)
      a[load] = Gated ? read_shared(packs + load / 2 * kBytes + load % 2 * to_values)
                      : read_shared(packs + load * kBytes);
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) b[chunk] = read_shared(x + chunk * kBytes);
    if (left < kGroupElements<Gated>) {
#pragma unroll
      for (int load = 0; load < kLoads; ++load) {
        if ((Gated ? load / 2 : load) * kChunk + rest * kPack >= left) a[load] = make_uint4(0, 0, 0, 0);
      }
    }
  }
};

// The tiles of a group, every `stride`th from the `first`; `thread` counts in the group, whose barrier `sync`
// is. `sums`: the group's own. `early`: what is added to the first, null where it is still to be read.
template <bool Gated, typename T, typename Sync>
__device__ __forceinline__ void multiply_streamed(const FewRows<T>& product, const T* staged, float* sums,
                                                  StreamedWeights& weights, int thread, int first, int stride,
                                                  const Outputs<false, T>* early, Sync sync) {
  const auto in = static_cast<int>(product.in), columns = static_cast<int>(product.columns);
  const auto layout = Layout::of<Gated>(in);
  const StageLayout<Gated> stages{weights.ring.rounds};
  const int warp = thread / kWarp, lane = thread % kWarp, column = lane / 4, rest = lane % 4;
  // Sums of rows that there are not are made of the last's, and not used.
  const unsigned x =
      shared_address(staged) + (min(column, product.rows - 1) * layout.stride + rest * kPack) * 2;
  const int own_packs = stages.column(column) + (warp * kGroupElements<Gated> + rest * kPack) * 2;
  const int of_round = kWarps * kGroupElements<Gated>;
  int tile = 0;
#pragma unroll 1
  for (int at = first * kTile; at < columns; at += stride * kTile, ++tile) {
    Outputs<Gated, T> outputs;
    const bool writes = tile % kWarps == warp;
    if (writes) {
      bool is_known = false;
      if constexpr (!Gated) {
        is_known = tile == 0 && early != nullptr;
        if (is_known) outputs = *early;
      }
      if (!is_known) outputs.read_addends(product, at, lane);
    }
    float sum[2][4] = {};
#pragma unroll 1
    for (int group = warp; group - warp < layout.groups;) {
      unsigned packs = weights.await_next() + own_packs;
#pragma unroll 1
      for (int round = weights.ring.rounds; round > 0; --round) {
        const int k = group * kGroupElements<Gated>;
        if (group < layout.groups) {
          GroupPacks<Gated> read;
          read.read(packs, stages.to_values(), x + k * 2, in - k, rest);
          if (round == 1) weights.release();
          multiply_packs<Gated, T>(read.a, read.b, sum);
        } else if (round == 1) {
          weights.release();
        }
        packs += of_round * 2;
        group += kWarps;
      }
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
