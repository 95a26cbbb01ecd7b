// Pieces of attention to what is kept: how lanes share a head, and what they hold of it.
#pragma once

#include <type_traits>

#include "models/cuda/block.cuh"

namespace twobw::models::cuda::cached {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / kWarp;

// How a block takes heads: packs of V elements, E of them in each of Lanes lanes; the lanes of one key are a
// slot, which takes U places at once, for Q queries.
template <int V, int Lanes, int E, int Q>
struct Shape {
  static constexpr int kPack = V, kLanes = Lanes, kEach = E, kQueries = Q;
  static constexpr int kPlaces = E >= 4 ? 1 : 4 / E;
  static constexpr int kSlots = kThreads / Lanes;
  static constexpr int kSize = V * Lanes * E;  // of the largest head
  static constexpr bool kReadsAhead = E <= 2;  // the next places, where there are registers for them
};

// Whether a step in one kernel has heads of this shape.
template <typename S, typename T>
constexpr bool is_in_step() {
  return sizeof(T) == 2 && S::kPack == kFullPack<T> && S::kEach == 1 && S::kLanes <= 16;
}

// A pack as it lies in memory: one element, or 16 bytes.
template <int V, typename T>
using Raw = std::conditional_t<V == 1, T, uint4>;

template <typename T, int V>
__device__ __forceinline__ void unpack(const Raw<V, T>& raw, float (&to)[V]) {
  const auto pack = *reinterpret_cast<const Pack<T, V>*>(&raw);
#pragma unroll
  for (int i = 0; i < V; ++i) to[i] = to_float(pack.values[i]);
}

// A head that the step has made, as a lane reads it: its packs, and those half a head away from them. Past
// the first cache, which may have what was there before.
template <typename S, typename T>
struct Made {
  using Raw = cached::Raw<S::kPack, T>;
  Raw own[S::kEach], other[S::kEach];

  __device__ void read(const T* head, int lane, int size, bool with_other) {
#pragma unroll
    for (int e = 0; e < S::kEach; ++e) {
      const int i = (e * S::kLanes + lane) * S::kPack, half = size / 2;
      own[e] = other[e] = Raw{};
      if (i >= size) continue;
      own[e] = __ldcg(reinterpret_cast<const Raw*>(head + i));
      if (with_other)
        other[e] = __ldcg(reinterpret_cast<const Raw*>(head + (i < half ? i + half : i - half)));
    }
  }
};

// The angles of a place, of the packs of a lane.
template <typename S>
struct Angles {
  float cosine[S::kEach][S::kPack] = {}, sine[S::kEach][S::kPack] = {};
  bool turn = false;

  __device__ void read(const float* table, std::int64_t place, int lane, int size) {
    turn = table != nullptr;
    if (!turn) return;
#pragma unroll
    for (int e = 0; e < S::kEach; ++e) {
      const int i = (e * S::kLanes + lane) * S::kPack;
      if (i >= size) continue;
      const float* of_place = table + place * size + (i < size / 2 ? i : i - size / 2);
      load<S::kPack>(of_place, cosine[e]);
      load<S::kPack>(of_place + size / 2, sine[e]);
    }
  }

  // Elements of a head, each with that half a head away from it; 0 behind its end.
  template <typename T>
  __device__ void apply(const Made<S, T>& head, int lane, int size, float (&to)[S::kEach][S::kPack]) const {
#pragma unroll
    for (int e = 0; e < S::kEach; ++e) {
      const int i = (e * S::kLanes + lane) * S::kPack, half = size / 2;
      unpack<T>(head.own[e], to[e]);
      if (!turn || i >= size) continue;
      float other[S::kPack];
      unpack<T>(head.other[e], other);
#pragma unroll
      for (int v = 0; v < S::kPack; ++v) {
        const float signed_sine = i < half ? -sine[e][v] : sine[e][v];
        to[e][v] = to_float(from_float<T>(to[e][v] * cosine[e][v] + other[v] * signed_sine));
      }
    }
  }
};

// Keys and values of the places of a slot, as they are kept. Past the first cache, as a step may begin before
// all of the step before has ended.
template <typename S, typename T>
struct Kept {
  using Raw = cached::Raw<S::kPack, T>;
  Raw keys[S::kPlaces][S::kEach], values[S::kPlaces][S::kEach];

  __device__ void read(const T* from_keys, const T* from_values, int first, int end, int lane, int size) {
#pragma unroll
    for (int u = 0; u < S::kPlaces; ++u) {
#pragma unroll
      for (int e = 0; e < S::kEach; ++e) {
        const int i = (e * S::kLanes + lane) * S::kPack;
        const std::int64_t at = static_cast<std::int64_t>(first + u * S::kSlots) * size + i;
        keys[u][e] = values[u][e] = Raw{};
        if (first + u * S::kSlots >= end || i >= size) continue;
        keys[u][e] = __ldcg(reinterpret_cast<const Raw*>(from_keys + at));
        values[u][e] = __ldcg(reinterpret_cast<const Raw*>(from_values + at));
      }
    }
  }

  __device__ static void unpack(const Raw (&from)[S::kEach], float (&to)[S::kEach][S::kPack]) {
#pragma unroll
    for (int e = 0; e < S::kEach; ++e) cached::unpack<T>(from[e], to[e]);
  }
};

// What a slot has of one query: the greatest score, the sum of the weights by it, and the mix by these.
template <typename S>
struct Mix {
  float top = -INFINITY, total = 0, values[S::kEach][S::kPack] = {};

  // What weights by the one are times, to be by the other, which is not below it; 0 where there are none.
  __device__ static float factor(float from, float to) { return expf(from - (to == -INFINITY ? 0.0f : to)); }

  __device__ void raise(float highest) {
    const float own = factor(top, highest);
    top = highest;
    total *= own;
#pragma unroll
    for (int e = 0; e < S::kEach; ++e) {
#pragma unroll
      for (int v = 0; v < S::kPack; ++v) values[e][v] *= own;
    }
  }

  // With that of the lane so far away.
  __device__ void join(int offset) {
    const float other_top = __shfl_xor_sync(~0u, top, offset), highest = fmaxf(top, other_top);
    const float own = factor(top, highest), other = factor(other_top, highest);
    top = highest;
    total = total * own + __shfl_xor_sync(~0u, total, offset) * other;
#pragma unroll
    for (int e = 0; e < S::kEach; ++e) {
#pragma unroll
      for (int v = 0; v < S::kPack; ++v)
        values[e][v] = values[e][v] * own + __shfl_xor_sync(~0u, values[e][v], offset) * other;
    }
  }
};

// Over the lanes of a slot.
template <typename S>
__device__ __forceinline__ float slot_sum(float value) {
#pragma unroll
  for (int offset = S::kLanes / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(~0u, value, offset);
  return value;
}

}  // namespace twobw::models::cuda::cached
