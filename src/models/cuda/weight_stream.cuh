// The weights of all products of a step as one stream: a group of a block's warps has a ring in shared
// memory, which a warp of its own keeps full whatever the step waits for.
#pragma once

#include "models/cuda/bulk_copy.cuh"
#include "models/cuda/few_rows_weights.cuh"

namespace twobw::models::cuda::narrow {

constexpr int kStreams = 2;  // groups of kWarps warps in a block, each with tiles of its own

// The weights of a product as they are streamed.
struct alignas(16) Streamed {
  const void* weight = nullptr;
  int columns = 0;
  int in = 0;  // below 0: as many, and gated
};

// Tiles of product after product are dealt to the groups of all blocks in turn, so that over a step all read
// about as much.
struct Deal {
  int turn = 0;  // who gets the next tile

  static __device__ int all() { return kStreams * static_cast<int>(gridDim.x); }
  __device__ int first(int stream) const {
    const int tile = static_cast<int>(blockIdx.x) + stream * static_cast<int>(gridDim.x) - turn;
    return tile < 0 ? tile + all() : tile;
  }
  __device__ void pass(int tiles) { turn = (turn + tiles) % all(); }
};

// A stage has of a tile's columns what every warp takes of them in so many rounds, a group a round. Pieces of
// columns lie one behind the other, those of odd columns behind those of even ones and half of all banks on:
// reading two neighbours at once meets all banks. The values' columns of gated products are behind the
// gates'.
template <bool Gated>
struct StageLayout {
  int rounds;

  TWOBW_HOST_DEVICE int groups() const { return rounds * kWarps; }
  TWOBW_HOST_DEVICE int elements() const { return groups() * kGroupElements<Gated>; }  // of a column
  TWOBW_HOST_DEVICE int piece() const { return elements() * 2; }                       // in bytes, as below
  TWOBW_HOST_DEVICE int column(int index) const {
    return index / 2 * piece() + index % 2 * ((Gated ? 8 : 4) * piece() + 64);
  }
  TWOBW_HOST_DEVICE int to_values() const { return 4 * piece(); }
};
TWOBW_HOST_DEVICE constexpr int stage_bytes(int rounds) {
  return rounds * kLoads * kThreads * 16 + 128;
}
static_assert(kTile == 8);

// The stages of a group, and two barriers of each: that it is there, and that all warps have read it.
struct Ring {
  unsigned stages, barriers;  // addresses in shared memory
  int count, rounds;
  int most_asked;  // stages that are on their way at once: more make whatever else is read wait

  __device__ unsigned stage(int place) const { return stages + place * stage_bytes(rounds); }
  __device__ unsigned there(int place) const { return barriers + place * 16; }
  __device__ unsigned read(int place) const { return barriers + place * 16 + 8; }
  __device__ void begin() const {
    for (int place = 0; place < count; ++place) {
      begin_barrier(there(place), 1);
      begin_barrier(read(place), kWarps);
    }
  }
};

// A place in a ring, and how often it was passed: even or odd.
struct Place {
  int index = 0;
  unsigned parity = 0;

  __device__ void advance(const Ring& ring) {
    if (++index < ring.count) return;
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
    oldest.advance(ring);
  }
};

// A tile's weights, stage after stage: a lane asks for the pieces of one column.
template <bool Gated, typename T>
__device__ __forceinline__ void fetch_tile(const T* weight, int columns, int in, int tile, const Ring& ring,
                                           Place& place, Asked& asked, std::uint64_t policy) {
  const StageLayout<Gated> layout{ring.rounds};
  const int lane = static_cast<int>(threadIdx.x) % kWarp, index = lane % kTile;
  const int count = min(kTile, columns - tile * kTile);
  const bool of_values = lane >= kTile, asks = lane < (Gated ? 2 : 1) * kTile && index < count;
  const std::int64_t column = static_cast<std::int64_t>(tile) * kTile + index + (of_values ? columns : 0);
  const T* from = weight + column * in;
  const int to = layout.column(index) + (of_values ? layout.to_values() : 0);
  for (int k = 0; k < in; k += layout.elements()) {
    const auto bytes = static_cast<unsigned>(min(layout.elements(), in - k)) * 2;
    const unsigned stage = ring.stage(place.index), there = ring.there(place.index);
    asked.make_room(ring);
    await_phase(ring.read(place.index), place.parity ^ 1);
    if (lane == 0) arrive_expecting(there, bytes * static_cast<unsigned>(Gated ? 2 * count : count));
    __syncwarp();
    if (asks) fetch_bulk(stage + to, from + k, bytes, there, policy);
    place.advance(ring);
  }
}

// By a warp: all weights of a group's tiles, as there is room for them.
template <typename T>
__device__ __forceinline__ void stream_weights(const Streamed* products, int count, const Ring& ring,
                                               int stream) {
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
    const int tiles = (product.columns + kTile - 1) / kTile;
    const auto* weight = static_cast<const T*>(product.weight);
    for (int tile = deal.first(stream); tile < tiles; tile += Deal::all()) {
      if (product.in < 0) {
        fetch_tile<true>(weight, product.columns, -product.in, tile, ring, place, asked, policy);
      } else {
        fetch_tile<false>(weight, product.columns, product.in, tile, ring, place, asked, policy);
      }
    }
    deal.pass(tiles);
  }
}

// What a warp sees of its group's ring: it takes stage after stage.
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
    place.advance(ring);
  }
};

}  // namespace twobw::models::cuda::narrow
