// The weights of all products of a step as one stream: a block has a ring in shared memory, which a warp of its
// own keeps full whatever the step waits for.
#pragma once

#include "models/cuda/bulk_copy.cuh"
#include "models/cuda/few_rows_weights.cuh"

namespace twobw::models::cuda::narrow {

// A tile of a stream has rows of weights for a whole operand of the tensor cores: 16 columns, or 8 gates and
// their 8 values. So many warps share what its sums go over.
constexpr int kOperand = 16;
constexpr int kSharing = 16;
template <bool Gated>
constexpr int kWide = Gated ? kTile : kOperand;  // columns of a tile
static_assert(kTile == 8 && kSharing == 2 * kWarps);

// The weights of a product as they are streamed.
struct alignas(16) Streamed {
  const void* weight = nullptr;
  int columns = 0;
  int in = 0;  // below 0: as many, and gated
};

TWOBW_HOST_DEVICE constexpr int tiles_of(std::int64_t columns, bool gated) {
  const int wide = gated ? kWide<true> : kWide<false>;
  return static_cast<int>((columns + wide - 1) / wide);
}

// Tiles of product after product are dealt to all blocks in turn, so that over a step all read about as much.
struct Deal {
  int turn = 0;  // who gets the next tile

  static __device__ int all() { return static_cast<int>(gridDim.x); }
  __device__ int first() const {
    const int tile = static_cast<int>(blockIdx.x) - turn;
    return tile < 0 ? tile + all() : tile;
  }
  __device__ void pass(int tiles) { turn = (turn + tiles) % all(); }
};

// A stage has as much of a tile's columns as all warps take at once, two chunks each. Pieces of columns lie
// one behind the other, those of odd columns behind those of even ones and half of all banks on: reading two
// neighbours at once meets all banks.
constexpr int kStageElements = 2 * kSharing * kChunk;  // of a column
constexpr int kPiece = 2 * kStageElements;             // in bytes, as below
constexpr int kStageBytes = kOperand * kPiece + 128;
constexpr int kToSecond = kTile / 2 * kPiece;  // from a column of an operand's first half to the second's
TWOBW_HOST_DEVICE constexpr int piece_of(int index) {
  return index / 2 * kPiece + index % 2 * (kTile * kPiece + 64);
}

// The stages of a block, and two barriers of each: that it is there, and that all warps have read it.
struct Ring {
  unsigned stages, barriers;  // addresses in shared memory
  int count;
  int most_asked;  // stages that are on their way at once: more make whatever else is read wait

  __device__ unsigned stage(int place) const { return stages + place * kStageBytes; }
  __device__ unsigned there(int place) const { return barriers + place * 16; }
  __device__ unsigned read(int place) const { return barriers + place * 16 + 8; }
  __device__ void begin() const {
    for (int place = 0; place < count; ++place) {
      begin_barrier(there(place), 1);
      begin_barrier(read(place), kSharing);
    }
  }
};

// A place in a ring, and how often it was passed: even or odd.
struct Place {
  int index = 0;
  unsigned parity = 0;

  __device__ void advance(int count) {
    if (++index < count) return;
    index = 0;
    parity ^= 1;
  }
};

// The stages that were asked for and may not be there.
struct Asked {
  Place oldest;
  int count = 0;

  __device__ void make_room(const Ring& ring) {
    if (count < ring.most_asked) {
      ++count;
      return;
    }
    await_phase(ring.there(oldest.index), oldest.parity);
    oldest.advance(ring.count);
  }
};

// A tile's weights, stage after stage: a lane asks for the pieces of one column.
template <bool Gated, typename T>
__device__ __forceinline__ void fetch_tile(const T* weight, int columns, int in, int tile, const Ring& ring,
                                           Place& place, Asked& asked, std::uint64_t policy) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, index = lane % kWide<Gated>;
  const int count = min(kWide<Gated>, columns - tile * kWide<Gated>);
  const bool of_values = lane >= kWide<Gated>, asks = lane < kOperand && index < count;
  const std::int64_t column = static_cast<std::int64_t>(tile) * kWide<Gated> + index + (of_values ? columns : 0);
  const T* from = weight + column * in;
  const int to = piece_of(lane % kOperand);
  for (int k = 0; k < in; k += kStageElements) {
    const auto bytes = static_cast<unsigned>(min(kStageElements, in - k)) * 2;
    const unsigned stage = ring.stage(place.index), there = ring.there(place.index);
    asked.make_room(ring);
    await_phase(ring.read(place.index), place.parity ^ 1);
    if (lane == 0) arrive_expecting(there, bytes * static_cast<unsigned>(Gated ? 2 * count : count));
    __syncwarp();
    if (asks) fetch_bulk(stage + to, from + k, bytes, there, policy);
    place.advance(ring.count);
  }
}

// By a warp: all weights of a block's tiles, as there is room for them.
template <typename T>
__device__ __forceinline__ void stream_weights(const Streamed* products, int count, const Ring& ring) {
  const std::uint64_t policy = read_once_policy();
  Deal deal;
  Place place;
  Asked asked;
  const auto read = [&](int i) {
    return __ldg(reinterpret_cast<const uint4*>(products + min(i, count - 1)));
  };
  uint4 raw = count > 0 ? read(0) : uint4{};
  for (int i = 0; i < count; ++i) {
    const auto product = *reinterpret_cast<const Streamed*>(&raw);
    raw = read(i + 1);
    const int tiles = tiles_of(product.columns, product.in < 0);
    const auto* weight = static_cast<const T*>(product.weight);
    for (int tile = deal.first(); tile < tiles; tile += Deal::all()) {
      if (product.in < 0) {
        fetch_tile<true>(weight, product.columns, -product.in, tile, ring, place, asked, policy);
      } else {
        fetch_tile<false>(weight, product.columns, product.in, tile, ring, place, asked, policy);
      }
    }
    deal.pass(tiles);
  }
}

// What a warp sees of its block's ring: it takes stage after stage.
struct StreamedWeights {
  Ring ring;
  Place place;
  bool waits = true;

  // The stage that comes next, when it is there.
  __device__ unsigned await_next() const {
    if (waits) await_phase(ring.there(place.index), place.parity);
    return ring.stage(place.index);
  }
  // This warp has read the stage.
  __device__ void release() {
    __syncwarp();
    if (threadIdx.x % kWarp == 0 && waits) arrive(ring.read(place.index));
    place.advance(ring.count);
  }
};

}  // namespace twobw::models::cuda::narrow
