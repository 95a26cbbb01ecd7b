// The weights of all products of a step as one stream: a block has a ring in shared memory, which a warp of
// its own keeps full whatever the step waits for.
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
  int most_asked;  // quarters of stages that are on their way at once: more make whatever else is read wait

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

// A stage is asked for in quarters. So many of them are on their way at once, of the last that were asked
// for.
constexpr int kQuarters = 4;
struct Asked {
  Place oldest;  // of the stages that may not be there
  int there = 0, quarters = 0;

  // Until another quarter may be asked for. At least one stage is on its way.
  __device__ void make_room(const Ring& ring) {
    while (quarters - ring.most_asked >= there * kQuarters) {
      await_phase(ring.there(oldest.index), oldest.parity);
      oldest.advance(ring.count);
      ++there;
    }
    ++quarters;
  }
};

// The stages of a block in the order in which it takes them, as a lane sees them: it has the piece of one
// column.
template <typename T>
class Stages {
 public:
  __device__ Stages(const Streamed* products, int count)
      : products_(products), count_(count), lane_(static_cast<int>(threadIdx.x) % kWarp) {
    if (count_ == 0) return;
    raw_ = read(0);
    begin_product();
    begin_tile();
  }

  __device__ bool is_at_end() const { return index_ >= count_; }
  __device__ bool has_piece() const { return has_piece_; }
  __device__ const T* piece() const { return piece_; }
  __device__ unsigned bytes() const { return static_cast<unsigned>(min(kStageElements, left_)) * 2; }
  __device__ unsigned pieces() const { return pieces_; }  // of all lanes

  __device__ void next() {
    piece_ += kStageElements;
    left_ -= kStageElements;
    if (left_ > 0) return;
    tile_ += Deal::all();
    begin_tile();
  }

 private:
  __device__ uint4 read(int i) const {
    return __ldg(reinterpret_cast<const uint4*>(products_ + min(i, count_ - 1)));
  }
  __device__ void begin_product() {
    product_ = *reinterpret_cast<const Streamed*>(&raw_);
    raw_ = read(index_ + 1);
    is_gated_ = product_.in < 0;
    if (is_gated_) product_.in = -product_.in;
    tiles_ = tiles_of(product_.columns, is_gated_);
    tile_ = deal_.first();
  }
  // Of this product, or of the next that has one for this block.
  __device__ void begin_tile() {
    while (tile_ >= tiles_) {
      deal_.pass(tiles_);
      if (++index_ >= count_) return;
      begin_product();
    }
    const int wide = is_gated_ ? kWide<true> : kWide<false>,
              columns = min(wide, product_.columns - tile_ * wide);
    const int column = lane_ & (wide - 1);
    has_piece_ = lane_ < kOperand && column < columns;
    pieces_ = static_cast<unsigned>(is_gated_ ? 2 * columns : columns);
    left_ = product_.in;
    const int row = tile_ * wide + column + (lane_ >= wide ? product_.columns : 0);
    piece_ = static_cast<const T*>(product_.weight) + static_cast<std::int64_t>(row) * product_.in;
  }

  const Streamed* products_;
  int count_, lane_;
  int index_ = 0, tile_ = 0, tiles_ = 0, left_ = 0;
  bool is_gated_ = false, has_piece_ = false;
  unsigned pieces_ = 0;
  const T* piece_ = nullptr;
  Deal deal_;
  Streamed product_;
  uint4 raw_{};  // the next product
};

// By a warp: all weights of a block's tiles, as there is room for them.
template <typename T>
__device__ __forceinline__ void stream_weights(const Streamed* products, int count, const Ring& ring) {
  const std::uint64_t policy = read_once_policy();
  const bool tells = threadIdx.x % kWarp == 0;
  const int index = static_cast<int>(threadIdx.x) % kOperand, to = piece_of(index);
  const int own_quarter = index / (kOperand / kQuarters);
  Place place;
  Asked asked;
  for (Stages<T> stages(products, count); !stages.is_at_end(); stages.next()) {
    await_phase(ring.read(place.index), place.parity ^ 1);
    const unsigned bytes = stages.bytes(), there = ring.there(place.index);
    if (tells) arrive_expecting(there, bytes * stages.pieces());
    __syncwarp();
#pragma unroll 1
    for (int quarter = 0; quarter < kQuarters; ++quarter) {
      asked.make_room(ring);
      if (stages.has_piece() && own_quarter == quarter)
        fetch_bulk(ring.stage(place.index) + to, stages.piece(), bytes, there, policy);
    }
    place.advance(ring.count);
  }
}

// What a warp sees of its block's ring: it takes stage after stage.
struct StreamedWeights {
  Ring ring;
  Place place;

  // The stage that comes next, when it is there.
  __device__ unsigned await_next() const {
    await_phase(ring.there(place.index), place.parity);
    return ring.stage(place.index);
  }
  // This warp has read the stage.
  __device__ void release() {
    __syncwarp();
    if (threadIdx.x % kWarp == 0) arrive(ring.read(place.index));
    place.advance(ring.count);
  }
};

}  // namespace twobw::models::cuda::narrow
