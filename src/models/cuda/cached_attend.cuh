// What a block does of attention to what is kept.
#pragma once

#include "models/cuda/cached_parts.cuh"

namespace twobw::models::cuda::cached {

// What its warps leave for each other.
template <typename S>
struct Scratch {
  float mixes[kWarps][S::kQueries][S::kSize];
  float tops[kWarps][S::kQueries], totals[kWarps][S::kQueries];
};

// A part of the places of a head of keys, for queries that share it, by kThreads threads; its slots take
// places in turn. The part with the newest place keeps its key and value. Before await_made() only what no
// other kernel of the step writes is read; `sync` is a barrier of the threads. Of several parts, put(query,
// i, sum, greatest score, sum of the weights by it) takes element i of a query's mix.
template <typename S, typename T, typename Await, typename Sync, typename Put>
__device__ __forceinline__ void attend_part(const CachedAttention<T>& attention, const Turn& turn,
                                            const Part& part, int thread, Scratch<S>& scratch,
                                            Await await_made, Sync sync, Put put) {
  const int warp = thread / kWarp, size = attention.size;
  const int slot = thread / S::kLanes, lane = thread % S::kLanes;
  const std::int64_t row = turn.row;
  const auto heads = Heads<S>::of(attention, turn);
  const std::int64_t kept = (row * attention.key_heads + heads.keys) * attention.places * size;
  Kept<S, T> places;
  places.read(attention.keys + kept, attention.values + kept, part.begin + slot, part.end, lane, size);
  Angles<S> angles;
  angles.read(attention.angles, part.seen, lane, size);
  await_made();

  const int all = attention.queries + 2 * attention.key_heads;
  const T* qkv = attention.qkv + row * all * size;
  const float scale = rsqrtf(static_cast<float>(size));
  // All are asked for before the first is used.
  const bool newest = part.is_last() && warp == 0;
  Made<S, T> made[S::kQueries], made_key{}, made_value{};
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
        store<S::kPack>(key[e], attention.keys + kept + static_cast<std::int64_t>(part.seen) * size + i);
        store<S::kPack>(value[e], attention.values + kept + static_cast<std::int64_t>(part.seen) * size + i);
      }
    }
  }

  for (int first = part.begin; first < part.end; first += S::kPlaces * S::kSlots) {
    Kept<S, T> ahead;
    const int next = first + S::kPlaces * S::kSlots;
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
    if (thread % kWarp >= S::kLanes) continue;
#pragma unroll
    for (int e = 0; e < S::kEach; ++e) {
#pragma unroll
      for (int v = 0; v < S::kPack; ++v)
        scratch.mixes[warp][q][(e * S::kLanes + lane) * S::kPack + v] = mix[q].values[e][v];
    }
    if (lane == 0) {
      scratch.tops[warp][q] = mix[q].top;
      scratch.totals[warp][q] = mix[q].total;
    }
  }
  sync();

  const std::int64_t of_row = row * attention.queries + heads.first;
  for (int item = thread; item < heads.count * size; item += kThreads) {
    const int query = item / size, i = item % size;
    float highest = -INFINITY, sum = 0, total = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) highest = fmaxf(highest, scratch.tops[w][query]);
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const float factor = Mix<S>::factor(scratch.tops[w][query], highest);
      sum += factor * scratch.mixes[w][query][i];
      total += factor * scratch.totals[w][query];
    }
    if (part.parts == 1) {
      attention.out[of_row * size + item] = from_float<T>(sum / total);
      continue;
    }
    put(query, i, sum, highest, total);
  }
}

}  // namespace twobw::models::cuda::cached
