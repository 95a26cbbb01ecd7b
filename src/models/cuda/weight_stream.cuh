// The weights of all products of a step as one stream: a thread's ring is full while the step waits for
// something else than weights.
#pragma once

#include "models/cuda/few_rows_weights.cuh"

namespace twobw::models::cuda::narrow {

// The weights of a product as they are streamed.
struct alignas(16) Streamed {
  const void* weight = nullptr;
  int columns = 0;
  int in = 0;  // below 0: as many, and gated
};

// Tiles of product after product are dealt to blocks in turn, so that over a step all read about as much.
struct Deal {
  int turn = 0;  // the block that gets the next tile

  __device__ int first() const {
    const int tile = static_cast<int>(blockIdx.x) - turn;
    return tile < 0 ? tile + static_cast<int>(gridDim.x) : tile;
  }
  __device__ void pass(int tiles) { turn = (turn + tiles) % static_cast<int>(gridDim.x); }
};

// The groups of a warp, in the order in which it takes them (as those of one product: Weights). Every
// fetch_next() ends a group of copies, an empty one after the last.
template <typename T>
class WeightStream {
 public:
  // `products` in shared memory. `depth`: groups on their way, one of those of await_next().
  __device__ WeightStream(const Streamed* products, int count, uint4* ring, int depth)
      : products_(products),
        left_(count),
        ring_(ring + threadIdx.x),
        policy_(read_once_policy()),
        depth_(depth) {
    open_next();
    for (int place = 0; place < depth; ++place) fetch_next();
  }

  __device__ void await_next() const {
    switch (depth_) {
      case 12:
        return await_groups<11>();
      case 10:
        return await_groups<9>();
      case 8:
        return await_groups<7>();
      case 6:
        return await_groups<5>();
      default:
        return await_groups<3>();
    }
  }
  __device__ const uint4* packs() const { return ring_ + place_ * kLoads * kThreads; }

  __device__ void fetch_next() {
    if (has_more_) {
      if (gated_) {
        fetch_group<true>();
      } else {
        fetch_group<false>();
      }
      advance();
    }
    end_group();
    place_ = place_ + 1 < depth_ ? place_ + 1 : 0;
  }

 private:
  static __device__ int warp() { return static_cast<int>(threadIdx.x) / kWarp; }

  template <bool Gated>
  __device__ void fetch_group() const {
    const std::int64_t column = static_cast<std::int64_t>(tile_) * kTile + threadIdx.x % kWarp / 4;
    const bool exists = column < columns_;
    const T* from = weight_ + (exists ? column * in_ : 0);
#pragma unroll
    for (int load = 0; load < kLoads; ++load) {
      const int chunk = Gated ? load / 2 : load;
      const int k =
          group_ * kGroupElements<Gated> + chunk * kChunk + static_cast<int>(threadIdx.x % 4) * kPack;
      const bool has = exists && k < in_;
      const std::int64_t to_values = Gated && load % 2 == 1 ? static_cast<std::int64_t>(columns_) * in_ : 0;
      fetch(ring_ + (place_ * kLoads + load) * kThreads, from + (has ? k + to_values : 0), has, policy_);
    }
  }

  __device__ void advance() {
    group_ += kWarps;
    if (group_ < groups_) return;
    group_ = warp();
    tile_ += static_cast<int>(gridDim.x);
    if (tile_ >= tiles_) open_next();
  }

  // The next product of which this warp has some groups.
  __device__ void open_next() {
    has_more_ = false;
    while (left_ > 0 && !has_more_) {
      const uint4 raw = read_shared(products_);
      const auto product = *reinterpret_cast<const Streamed*>(&raw);
      ++products_;
      --left_;
      weight_ = static_cast<const T*>(product.weight);
      gated_ = product.in < 0;
      in_ = gated_ ? -product.in : product.in;
      columns_ = product.columns;
      groups_ = gated_ ? (in_ + kGroupElements<true> - 1) / kGroupElements<true>
                       : (in_ + kGroupElements<false> - 1) / kGroupElements<false>;
      tiles_ = (columns_ + kTile - 1) / kTile;
      tile_ = deal_.first();
      group_ = warp();
      deal_.pass(tiles_);
      has_more_ = tile_ < tiles_ && group_ < groups_;
    }
  }

  const Streamed* products_;
  int left_;
  uint4* ring_;
  std::uint64_t policy_;
  int depth_, place_ = 0;
  Deal deal_;
  const T* weight_ = nullptr;
  int in_ = 0, columns_ = 0, groups_ = 0, tiles_ = 0, tile_ = 0, group_ = 0;
  bool gated_ = false, has_more_ = false;
};

}  // namespace twobw::models::cuda::narrow
