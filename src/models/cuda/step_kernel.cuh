// The kernel of a step: workers take one instruction after the other, a warp leads them. Between two
// instructions all blocks wait for each other; weights come meanwhile.
#pragma once

#include "models/cuda/likeliest.cuh"
#include "models/cuda/step_attention.cuh"
#include "models/cuda/step_program.h"
#include "models/cuda/step_staging.cuh"

namespace twobw::models::cuda::step {

static_assert(likeliest::kThreads == narrow::kThreads);

// A command, and the gains of its product where there are any, begin their way to the block's shared memory,
// by the warp that leads.
__device__ __forceinline__ void begin_to_bring(const Arguments& step, const Rooms& rooms, int instruction,
                                               const void* gain, int gains) {
  constexpr int kPacks = sizeof(Command) / sizeof(uint4);
  static_assert(sizeof(Command) % sizeof(uint4) == 0);
  const auto lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::uint64_t policy = read_once_policy();
  auto* to = reinterpret_cast<uint4*>(rooms.at(instruction));
  for (int pack = lane; pack < kPacks; pack += kWarp)
    fetch(to + pack, reinterpret_cast<const uint4*>(step.commands + instruction) + pack, true, policy);
  for (int pack = lane; pack < gains; pack += kWarp)
    fetch(rooms.gains_of(instruction) + pack, static_cast<const uint4*>(gain) + pack, true, policy);
  end_group();
}
// They are there, for all who have waited for it.
__device__ __forceinline__ void tell_brought(const Rooms& rooms) {
  await_groups<0>();
  __syncwarp();
  if (threadIdx.x % kWarp == 0) arrive(rooms.told());
}

// Workers wait for the leader between instructions; where they write, it waits for them too. Of a product it
// writes the tiles itself.
template <typename T>
__device__ __forceinline__ void lead(const Arguments& step, uint4* room) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  GridBarrier barrier(step.barrier);
  narrow::Place place;
  const Rooms rooms = Rooms::of(step, room);
#pragma unroll 1
  for (int i = 0; i < step.count; ++i) {
    const Command& command = *rooms.at(i);
    const bool multiplies = command.what.kind == StepKind::Product;
    const auto* product = reinterpret_cast<const FewRows<T>*>(command.what.body);
    using Ends = narrow::TileEnds<false, T>;
    typename Ends::Addends early;
    if (command.adds_early)
      early = Ends(*product, lane).read_addends(command.first_tile() * narrow::kWide<false>);
    if (i > 0 && lane == 0) barrier.await();
    sync_led();
    if (i + 1 < step.count) begin_to_bring(step, rooms, i + 1, command.next_gain, command.next_gains);
    if (!multiplies) {
      if (i + 1 < step.count) tell_brought(rooms);
      sync_led();
    } else {
      place = product->gated ? narrow::end_tiles<true, T>(*product, rooms.sums(), place, command.first_tile(),
                                                          narrow::Deal::all(), lane, nullptr)
                             : narrow::end_tiles<false, T>(*product, rooms.sums(), place,
                                                           command.first_tile(), narrow::Deal::all(), lane,
                                                           command.adds_early ? &early : nullptr);
    }
    if (i + 1 == step.count) return;
    __syncwarp();
    if (lane == 0) barrier.arrive();
    if (multiplies) tell_brought(rooms);
  }
}

template <typename T>
__device__ __forceinline__ void embed(const EmbedRows<T>* given) {
  const EmbedRows<T>& rows = *given;
  constexpr int N = kFullPack<T>;
  const int packs = rows.width / N, all = packs * rows.rows;
  for (int i = static_cast<int>(blockIdx.x * kWorkers + own_thread()); i < all;
       i += static_cast<int>(gridDim.x * kWorkers)) {
    const int row = i / packs;
    const std::int64_t token = __ldcg(rows.tokens + row);
    float values[N];
    load<N>(rows.weight + token * rows.width + i % packs * N, values);
#pragma unroll
    for (int v = 0; v < N; ++v) values[v] += 0.0f;  // no position; one zero
    store<N>(values, rows.out + static_cast<std::int64_t>(i) * N);
  }
}

// By the first group.
template <int N, typename T>
__device__ __forceinline__ void take_tokens(const Likeliest<T>* given) {
  const Likeliest<T>& rows = *given;
  const std::int64_t each = std::int64_t{narrow::kThreads} * N, needed = (rows.classes + each - 1) / each;
  const unsigned blocks = needed < gridDim.x ? static_cast<unsigned>(needed) : gridDim.x;
  if (blockIdx.x >= blocks) return;
  const SyncGroup sync{0};
  for (int row = 0; row < rows.rows; ++row) {
    likeliest::take_part<N>(rows, row, blockIdx.x, blocks, sync);
    sync();
  }
}

template <typename T>
__device__ __forceinline__ void work(const Arguments& step, uint4* room) {
  __shared__ int parts[kMostFewRows];
  narrow::Place place, sums_place;
#pragma unroll 1
  for (int i = 0; i < step.count; ++i) {
    const Rooms rooms = Rooms::of(step, room);
    await_phase(rooms.told(), static_cast<unsigned>(i) & 1);
    const Command& command = *rooms.at(i);
    const StepInstruction& instruction = command.what;
    const StepKind kind = instruction.kind;
    if (kind == StepKind::Product) {
      const auto* product = reinterpret_cast<const FewRows<T>*>(instruction.body);
      auto* staged = reinterpret_cast<T*>(rooms.staged);
      if (product->gain != nullptr) {
        stage_normed(*product, staged, rooms.gains_of(i));
      } else if (command.joins()) {
        stage_joined(*reinterpret_cast<const CachedAttention<T>*>(command.rows_from.body), staged, parts);
      } else {
        stage_as_they_are(*product, staged);
      }
      narrow::StreamedWeights weights{.ring = rooms.ring(), .place = place};
      sums_place =
          product->gated
              ? narrow::multiply_streamed<true>(*product, staged, rooms.sums(), sums_place, weights,
                                                own_thread(), command.first_tile(), narrow::Deal::all())
              : narrow::multiply_streamed<false>(*product, staged, rooms.sums(), sums_place, weights,
                                                 own_thread(), command.first_tile(), narrow::Deal::all());
      place = weights.place;
      continue;
    }
    if (kind == StepKind::Attend) {
      const auto* attention = reinterpret_cast<const CachedAttention<T>*>(instruction.body);
      with_shape_of(*attention, [&]<typename S>(S) { attend_parts<S>(attention, rooms.staged); });
    } else if (kind == StepKind::Join) {
      const auto* attention = reinterpret_cast<const CachedAttention<T>*>(instruction.body);
      join_all(attention, (instruction.how & kJoinsAsClusters) != 0);
    } else {
      sync_led();
      if (kind == StepKind::Embed) {
        embed(reinterpret_cast<const EmbedRows<T>*>(instruction.body));
      } else if (kind == StepKind::Likeliest && own_thread() < narrow::kThreads) {
        const auto* rows = reinterpret_cast<const Likeliest<T>*>(instruction.body);
        if (rows->classes % kFullPack<T> == 0) {
          take_tokens<kFullPack<T>>(rows);
        } else {
          take_tokens<1>(rows);
        }
      }
    }
    sync_led();
  }
}

// For Hopper and later: others have no bulk copies.
template <typename T>
__global__ void __launch_bounds__(kThreads, 1) step_kernel(const __grid_constant__ Arguments step) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ uint4 step_room[];
  const Rooms rooms = Rooms::of(step, step_room);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  if (threadIdx.x == 0) {
    begin_barrier(rooms.told(), 1);
    rooms.sums().begin();
    rooms.ring().begin();
    end_of_begun();
  }
  __syncthreads();
  if (warp > kWorkers / kWarp) {
    narrow::stream_weights<T>(step.products, step.product_count, rooms.ring());
  } else if (warp == kWorkers / kWarp) {
    begin_to_bring(step, rooms, 0, step.first_gain, step.first_gains);
    tell_brought(rooms);
    lead<T>(step, step_room);
  } else {
    work<T>(step, step_room);
  }
#endif
}

}  // namespace twobw::models::cuda::step
