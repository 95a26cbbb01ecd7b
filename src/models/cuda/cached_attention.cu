// Attention of one place to those before it. Long because one kernel does all of it, for heads of any size.
#include <algorithm>
#include <bit>

#include "models/cuda/cached_heads.cuh"
#include "models/cuda/cached_parts.cuh"
#include "models/cuda/early_begin.cuh"
#include "models/decode_kernels_cuda.h"

namespace twobw::models::cuda {
namespace cached {
namespace {

// Heads that are small enough for a cluster's parts to lie in one block.
template <typename S>
constexpr bool kHasClusters = S::kEach == 1 && S::kLanes <= 16;

struct Nothing {};
template <typename S, bool Clustered>
using Room = std::conditional_t<Clustered, Joined<S>, Nothing>;

// A block a part of the places of a head of keys, for queries that share it; its slots take places in turn.
// The part with the newest place keeps its key and value. Leaves the mix, the greatest score and the sum of
// the weights by it; the last block of a head to come puts them together, or the first of a cluster.
template <typename S, bool Clustered, typename T>
__global__ void __launch_bounds__(kThreads)
    attend_kernel(const __grid_constant__ CachedAttention<T> attention) {
  __shared__ float mixes[kWarps][S::kQueries][S::kSize];
  __shared__ float tops[kWarps][S::kQueries], totals[kWarps][S::kQueries];
  __shared__ Room<S, Clustered> joined;
  const int warp = static_cast<int>(threadIdx.x) / kWarp, size = attention.size;
  const int slot = static_cast<int>(threadIdx.x) / S::kLanes,
            lane = static_cast<int>(threadIdx.x) % S::kLanes;
  const std::int64_t row = blockIdx.z;
  const Part part = Part::of(attention);
  if constexpr (Clustered) arrive_in_cluster();  // begun: the others may write to its shared memory
  if (static_cast<int>(blockIdx.x) >= part.parts) {
    if constexpr (Clustered) {
      await_cluster();
      arrive_in_cluster();
      await_cluster();
    }
    return;
  }
  const auto heads = Heads<S>::of(attention);
  const std::int64_t kept = (row * attention.key_heads + heads.keys) * attention.places * size;
  Kept<S, T> places;
  places.read(attention.keys + kept, attention.values + kept, part.begin + slot, part.end, lane, size);
  Angles<S> angles;
  angles.read(attention.angles, part.seen, lane, size);
  await_kernel_before();
  let_next_begin();

  const int all = attention.queries + 2 * attention.key_heads;
  const T* qkv = attention.qkv + row * all * size;
  const float scale = rsqrtf(static_cast<float>(size));
  // All are asked for before the first is used.
  const bool newest = part.is_last() && warp == 0;
  Made<S, T> made[S::kQueries], made_key, made_value;
#pragma unroll
  for (int q = 0; q < S::kQueries; ++q)
    made[q].read(qkv + (heads.first + min(q, heads.count - 1)) * size, lane, size, angles.turn);
  if (newest) {
    made_key.read(qkv + (attention.queries + heads.keys) * size, lane, size, angles.turn);
    made_value.read(qkv + (attention.queries + attention.key_heads + heads.keys) * size, lane, size, false);
  }
  float queries[S::kQueries][S::kEach][S::kPack];
#pragma unroll
  for (int q = 0; q < S::kQueries; ++q) {
    angles.apply(made[q], lane, size, queries[q]);
#pragma unroll
    for (int e = 0; e < S::kEach; ++e) {
#pragma unroll
      for (int v = 0; v < S::kPack; ++v) queries[q][e][v] *= scale;
    }
  }
  const auto score_of = [&](int q, const float(&key)[S::kEach][S::kPack]) {
    float score = 0;
#pragma unroll
    for (int e = 0; e < S::kEach; ++e) {
#pragma unroll
      for (int v = 0; v < S::kPack; ++v) score += queries[q][e][v] * key[e][v];
    }
    return slot_sum<S>(score);
  };

  Mix<S> mix[S::kQueries];
  if (newest) {
    float key[S::kEach][S::kPack], value[S::kEach][S::kPack];
    angles.apply(made_key, lane, size, key);
    Angles<S>().apply(made_value, lane, size, value);
#pragma unroll
    for (int q = 0; q < S::kQueries; ++q) {
      const float score = score_of(q, key);
      if (slot != 0) continue;
      mix[q].top = score;
      mix[q].total = 1;
#pragma unroll
      for (int e = 0; e < S::kEach; ++e) {
#pragma unroll
        for (int v = 0; v < S::kPack; ++v) mix[q].values[e][v] = value[e][v];
      }
    }
    if (slot == 0 && heads.first * attention.key_heads == heads.keys * attention.queries) {
#pragma unroll
      for (int e = 0; e < S::kEach; ++e) {
        const int i = (e * S::kLanes + lane) * S::kPack;
        if (i >= size) continue;
        store<S::kPack>(key[e], attention.keys + kept + part.seen * size + i);
        store<S::kPack>(value[e], attention.values + kept + part.seen * size + i);
      }
    }
  }

  for (std::int64_t first = part.begin; first < part.end; first += S::kPlaces * S::kSlots) {
    Kept<S, T> ahead;
    const std::int64_t next = first + S::kPlaces * S::kSlots;
    if constexpr (S::kReadsAhead)
      ahead.read(attention.keys + kept, attention.values + kept, next + slot, part.end, lane, size);
    float scores[S::kQueries][S::kPlaces];
#pragma unroll
    for (int u = 0; u < S::kPlaces; ++u) {
      float key[S::kEach][S::kPack];
      places.unpack(places.keys[u], key);
#pragma unroll
      for (int q = 0; q < S::kQueries; ++q) {
        const float score = score_of(q, key);
        scores[q][u] = first + slot + u * S::kSlots < part.end ? score : -INFINITY;
      }
    }
#pragma unroll
    for (int q = 0; q < S::kQueries; ++q) {
      float highest = mix[q].top;
#pragma unroll
      for (int u = 0; u < S::kPlaces; ++u) highest = fmaxf(highest, scores[q][u]);
      mix[q].raise(highest);
    }
#pragma unroll
    for (int u = 0; u < S::kPlaces; ++u) {
      float value[S::kEach][S::kPack];
      places.unpack(places.values[u], value);
#pragma unroll
      for (int q = 0; q < S::kQueries; ++q) {
        const float weight = Mix<S>::factor(scores[q][u], mix[q].top);
        mix[q].total += weight;
#pragma unroll
        for (int e = 0; e < S::kEach; ++e) {
#pragma unroll
          for (int v = 0; v < S::kPack; ++v) mix[q].values[e][v] += weight * value[e][v];
        }
      }
    }
    if constexpr (S::kReadsAhead)
      places = ahead;
    else
      places.read(attention.keys + kept, attention.values + kept, next + slot, part.end, lane, size);
  }

#pragma unroll
  for (int q = 0; q < S::kQueries; ++q) {
#pragma unroll
    for (int offset = S::kLanes; offset < kWarp; offset *= 2) mix[q].join(offset);
    if (threadIdx.x % kWarp >= S::kLanes) continue;
#pragma unroll
    for (int e = 0; e < S::kEach; ++e) {
#pragma unroll
      for (int v = 0; v < S::kPack; ++v)
        mixes[warp][q][(e * S::kLanes + lane) * S::kPack + v] = mix[q].values[e][v];
    }
    if (lane == 0) {
      tops[warp][q] = mix[q].top;
      totals[warp][q] = mix[q].total;
    }
  }
  __syncthreads();
  if constexpr (Clustered) await_cluster();  // all have begun

  const std::int64_t of_row = row * attention.queries + heads.first;
  for (int item = static_cast<int>(threadIdx.x); item < heads.count * size; item += kThreads) {
    const int query = item / size, i = item % size;
    float highest = -INFINITY, sum = 0, total = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) highest = fmaxf(highest, tops[w][query]);
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const float factor = Mix<S>::factor(tops[w][query], highest);
      sum += factor * mixes[w][query][i];
      total += factor * totals[w][query];
    }
    if (part.parts == 1) {
      attention.out[of_row * size + item] = from_float<T>(sum / total);
      continue;
    }
    if constexpr (Clustered) {
      auto& of_cluster = joined;
      of_cluster.put(&of_cluster.mixes[blockIdx.x][query][i], sum);
      if (i == 0) {
        of_cluster.put(&of_cluster.tops[blockIdx.x][query], highest);
        of_cluster.put(&of_cluster.totals[blockIdx.x][query], total);
      }
      continue;
    }
    float* to = attention.partial + ((of_row + query) * attention.splits + blockIdx.x) * (size + 2);
    to[i] = sum;
    if (i == 0) {
      to[size] = highest;
      to[size + 1] = total;
    }
  }
  if constexpr (Clustered) {
    arrive_in_cluster();
    await_cluster();
    if (blockIdx.x != 0 || part.parts == 1) return;
    for (int item = static_cast<int>(threadIdx.x); item < heads.count * size; item += kThreads)
      attention.out[of_row * size + item] =
          from_float<T>(joined.mix_of(part.parts, item / size, item % size));
  } else if (part.parts > 1 && is_last_to_come(attention.arrived + of_row, part.parts)) {
    join_parts(attention, part.parts, heads.first, heads.count);
  }
}

template <typename S, bool Clustered, typename T>
void launch_parts(const CachedAttention<T>& attention, cudaStream_t stream) {
  const int group = attention.queries / attention.key_heads;
  const int blocks = (group + S::kQueries - 1) / S::kQueries;
  const auto parts = static_cast<unsigned>(attention.splits);
  launch_in_step(attend_kernel<S, Clustered, T>,
                 {.blocks = dim3(parts, static_cast<unsigned>(attention.key_heads * blocks),
                                 static_cast<unsigned>(attention.rows)),
                  .threads = kThreads,
                  .in_cluster = Clustered ? parts : 1},
                 stream, attention);
}

template <typename S, typename T>
void launch_shape(CachedAttention<T> attention, cudaStream_t stream) {
  if constexpr (kHasClusters<S>) {
    if (attention.splits > 1 && attention.places <= kClusterPlaces &&
        is_for_hopper(reinterpret_cast<const void*>(attend_kernel<S, true, T>))) {
      attention.splits =
          static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::min(attention.splits, kClusterParts))));
      launch_parts<S, true>(attention, stream);
      return;
    }
  }
  launch_parts<S, false>(attention, stream);
}

// Heads of whole packs of 16 bytes, either half of them too.
template <int Q, typename T>
void launch_packs(const CachedAttention<T>& attention, cudaStream_t stream) {
  constexpr int V = kFullPack<T>;
  if (attention.size <= 8 * V) {
    launch_shape<Shape<V, 8, 1, Q>>(attention, stream);
  } else if (attention.size <= 16 * V) {
    launch_shape<Shape<V, 16, 1, Q>>(attention, stream);
  } else if (attention.size <= 32 * V) {
    launch_shape<Shape<V, 32, 1, Q>>(attention, stream);
  } else if (attention.size <= 64 * V) {
    launch_shape<Shape<V, 32, 2, Q>>(attention, stream);
  } else if constexpr (64 * V < kLargestCachedHead) {
    launch_shape<Shape<V, 32, 4, Q>>(attention, stream);
  }
}

// Heads of any size, element by element.
template <typename T>
void launch_elements(const CachedAttention<T>& attention, cudaStream_t stream) {
  if (attention.size <= 2 * kWarp) {
    launch_shape<Shape<1, 32, 2, 1>>(attention, stream);
  } else if (attention.size <= 4 * kWarp) {
    launch_shape<Shape<1, 32, 4, 1>>(attention, stream);
  } else {
    launch_shape<Shape<1, 32, 16, 1>>(attention, stream);
  }
}

}  // namespace
}  // namespace cached

int cached_attention_splits(std::int64_t places) {
  const std::int64_t most = (places + cached::kFewestPlaces - 1) / cached::kFewestPlaces;
  return static_cast<int>(std::clamp<std::int64_t>(most, 1, cached::kMostParts));
}

std::int64_t cached_attention_partials(int rows, int queries, int size, int splits) {
  return static_cast<std::int64_t>(rows) * queries * splits * (size + 2);
}

template <typename T>
void cached_attention(const CachedAttention<T>& attention, cudaStream_t stream) {
  if (attention.size % (2 * kFullPack<T>) != 0) {
    cached::launch_elements(attention, stream);
  } else if (attention.queries == attention.key_heads) {
    cached::launch_packs<1>(attention, stream);
  } else {
    cached::launch_packs<cached::kMostQueries>(attention, stream);
  }
}

template void cached_attention(const CachedAttention<float>&, cudaStream_t);
template void cached_attention(const CachedAttention<__nv_bfloat16>&, cudaStream_t);
template void cached_attention(const CachedAttention<__half>&, cudaStream_t);

}  // namespace twobw::models::cuda
