// Attention of a step in one kernel: teams of a block's threads take parts in turn; then warps put them
// together, or the product that reads them does (step_staging.cuh).
#pragma once

#include "models/cuda/cached_join.cuh"
#include "models/cuda/step_rooms.cuh"

namespace twobw::models::cuda::step {

// A team takes one query: a step has no registers for several that share a head of keys, nor to read ahead.
template <int Lanes>
struct Shape : cached::Shape<8, Lanes, 1, 1> {
  static constexpr bool kReadsAhead = false;
};
constexpr std::size_t kScratch = kTeams * sizeof(cached::Scratch<Shape<16>>);
// Every part reads its keys and values for itself: more of them than this are better attended to by a kernel
// whose queries share them.
constexpr int kMostTaken = 2112;

// Calls `run` with the shape of the heads, as cached_attention() chooses it.
template <typename T, typename Run>
__device__ __forceinline__ void with_shape_of(const CachedAttention<T>& attention, Run run) {
  if (attention.size <= 8 * 8)
    run(Shape<8>());
  else
    run(Shape<16>());
}

// Every thread comes to sync_led() once: what the step has made can be read after it.
template <typename S, typename T>
__device__ __forceinline__ void attend_parts(const CachedAttention<T>* given, std::byte* room) {
  const CachedAttention<T>& attention = *given;
  const int worker = own_thread(), team = worker / cached::kThreads, thread = worker % cached::kThreads;
  auto& scratch = reinterpret_cast<cached::Scratch<S>*>(room)[team];
  const int group = attention.queries / attention.key_heads;
  const int of_row = attention.key_heads * ((group + S::kQueries - 1) / S::kQueries);
  const int all = attention.splits * of_row * attention.rows;
  const SyncTeam sync{team};
  bool has_waited = false;
  const auto await_once = [&] {
    if (!has_waited) sync_led();
    has_waited = true;
  };
  for (int i = static_cast<int>(blockIdx.x + team * gridDim.x); i < all;
       i += static_cast<int>(kTeams * gridDim.x)) {
    const int rest = i / attention.splits;
    const cached::Turn turn{.part = i % attention.splits, .heads = rest % of_row, .row = rest / of_row};
    const auto part = cached::Part::of(attention, turn);
    if (!part.exists()) continue;
    const auto heads = cached::Heads<S>::of(attention, turn);
    const std::int64_t first = static_cast<std::int64_t>(turn.row) * attention.queries + heads.first;
    cached::attend_part<S>(attention, turn, part, thread, scratch, await_once, sync,
                           [&](int query, int element, float sum, float highest, float total) {
                             cached::put_partial(attention, first + query, turn.part, element, sum, highest,
                                                 total);
                           });
    sync();  // the scratch is free again
  }
  await_once();
}

template <typename T>
__device__ __forceinline__ void join_all(const CachedAttention<T>* given, bool as_clusters) {
  constexpr int kWarps = kWorkers / kWarp;
  const CachedAttention<T>& attention = *given;
  const int worker = own_thread(), warp = worker / kWarp, lane = worker % kWarp;
  const int first = static_cast<int>(blockIdx.x + warp * gridDim.x), all = attention.rows * attention.queries;
  const auto parts_of = [&](int query) {
    return cached::Part::of(attention, {.part = 0, .heads = 0, .row = query / attention.queries}).parts;
  };
  int parts = first < all ? parts_of(first) : 1;
  sync_led();
  for (int query = first; query < all; query += static_cast<int>(kWarps * gridDim.x)) {
    if (query != first) parts = parts_of(query);
    if (parts == 1) continue;
    if (as_clusters) {
      cached::join_as_cluster(attention, query, parts, lane);
    } else {
      cached::join_in_order(attention, query, parts, lane);
    }
  }
}

}  // namespace twobw::models::cuda::step
