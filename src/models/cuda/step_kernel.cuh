// The kernel of a step: workers take one instruction after the other, a warp leads them. Between two
// instructions all blocks wait for each other; the workers' weights come meanwhile.
#pragma once

#include "models/cuda/likeliest.cuh"
#include "models/cuda/step_attention.cuh"
#include "models/cuda/step_program.h"
#include "models/cuda/step_staging.cuh"

namespace twobw::models::cuda::step {

static_assert(likeliest::kThreads == narrow::kThreads);

// A command and its gains to the block's shared memory, by the warp that leads.
template <typename T>
__device__ __forceinline__ void bring(const Arguments& step, const Rooms& rooms, int instruction) {
  const auto lane = static_cast<int>(threadIdx.x) % kWarp;
  Command* to = rooms.at(instruction);
  static_assert(sizeof(Command) <= kWarp * sizeof(uint4));
  if (lane < static_cast<int>(sizeof(Command) / sizeof(uint4)))
    reinterpret_cast<uint4*>(to)[lane] =
        __ldg(reinterpret_cast<const uint4*>(step.commands + instruction) + lane);
  __syncwarp();
  if (to->what.kind != StepKind::Product) return;
  const auto& product = *reinterpret_cast<const FewRows<T>*>(to->what.body);
  if (product.gain == nullptr) return;
  const auto packs = static_cast<int>(product.in / narrow::kPack);
  uint4* gains = rooms.gains_of(instruction);
  for (int pack = lane; pack < packs; pack += kWarp)
    fetch(gains + pack, product.gain + pack * narrow::kPack, true, read_once_policy());
  end_group();
  await_groups<0>();
}

// Two barriers stand between an instruction and the next: the workers are done; all blocks are.
template <typename T>
__device__ __forceinline__ void lead(const Arguments& step, const Rooms& rooms) {
  const bool is_first = threadIdx.x % kWarp == 0;
  GridBarrier barrier(step.barrier);
  for (int i = 0; i < step.count; ++i) {
    if (i > 0) {
      sync_led();
      if (is_first) {
        if ((step.left_out & StepTuning::kBarriers) == 0) barrier.arrive();
        note_time(step, i - 1, 2);
        if ((step.left_out & StepTuning::kBarriers) == 0) barrier.await();
        note_time(step, i, 0);
      }
    }
    sync_led();
    if (i + 1 < step.count) bring<T>(step, rooms, i + 1);
  }
}

template <typename T>
__device__ __forceinline__ void stage(const Command& command, const uint4* gains, T* staged,
                                      const int* parts) {
  const auto* product = reinterpret_cast<const FewRows<T>*>(command.what.body);
  const auto layout =
      product->gated ? narrow::Layout::of<true>(product->in) : narrow::Layout::of<false>(product->in);
  if (product->gain != nullptr) {
    stage_normed(product, layout, staged, gains);
  } else if (command.joins()) {
    stage_joined(reinterpret_cast<const CachedAttention<T>*>(command.rows_from.body), layout, staged, parts);
  } else {
    stage_as_they_are(product, layout, staged);
  }
}

// Gives the place in the ring after it.
template <bool Gated, typename T>
__device__ __forceinline__ narrow::Place multiply_all(const FewRows<T>* product, const T* staged, float* sums,
                                                      narrow::Ring ring, narrow::Place place, int first,
                                                      const narrow::Outputs<false, T>* early, bool waits) {
  narrow::StreamedWeights weights{.ring = ring, .place = place, .waits = waits};
  const int worker = own_thread(), group = worker / narrow::kThreads;
  narrow::multiply_streamed<Gated>(*product, staged, sums, weights, worker % narrow::kThreads, first,
                                   narrow::Deal::all(), early, SyncGroup{group});
  return weights.place;
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
  const auto has = [&](StepTuning::LeftOut what) { return (step.left_out & what) == 0; };
  narrow::Place place;
  narrow::Deal deal;
#pragma unroll 1
  for (int i = 0; i < step.count; ++i) {
    const Rooms rooms = Rooms::of(step, room);
    const Command& command = *rooms.at(i);
    const StepInstruction& instruction = command.what;
    const StepKind kind = instruction.kind;
    const int group = own_thread() / narrow::kThreads;
    if (kind == StepKind::Product) {
      if (command.joins())
        count_parts(reinterpret_cast<const CachedAttention<T>*>(command.rows_from.body), parts);
      const auto* product = reinterpret_cast<const FewRows<T>*>(instruction.body);
      narrow::Outputs<false, T> early;
      if (command.adds_early && own_thread() % narrow::kThreads < kWarp)
        early.read_addends(*product, std::int64_t{deal.first(group)} * narrow::kTile, own_thread() % kWarp);
      sync_led();
      if (has(StepTuning::kProducts)) {
        auto* staged = reinterpret_cast<T*>(rooms.staged);
        if (has(StepTuning::kStaging))
          stage(command, rooms.gains_of(i), staged, parts);
        else
          SyncWorkers()();
        if (threadIdx.x == 0) note_time(step, i, 1);
        if (threadIdx.x == 0) note_ready(step, i, 3, rooms.ring_of(group), place);
        place = product->gated
                    ? multiply_all<true>(product, staged, rooms.sums_of(group), rooms.ring_of(group), place,
                                         deal.first(group),
                                         static_cast<const narrow::Outputs<false, T>*>(nullptr),
                                         has(StepTuning::kWeights))
                    : multiply_all<false>(product, staged, rooms.sums_of(group), rooms.ring_of(group), place,
                                          deal.first(group), command.adds_early ? &early : nullptr,
                                          has(StepTuning::kWeights));
      }
      if (threadIdx.x == 0) note_ready(step, i, 4, rooms.ring_of(group), place);
      deal.pass(static_cast<int>((product->columns + narrow::kTile - 1) / narrow::kTile));
    } else if (kind == StepKind::Attend && has(StepTuning::kAttention)) {
      const auto* attention = reinterpret_cast<const CachedAttention<T>*>(instruction.body);
      with_shape_of(*attention, [&]<typename S>(S) { attend_parts<S>(attention, rooms.staged); });
    } else if (kind == StepKind::Join && has(StepTuning::kAttention)) {
      const auto* attention = reinterpret_cast<const CachedAttention<T>*>(instruction.body);
      join_all(attention, (instruction.how & kJoinsAsClusters) != 0);
    } else {
      sync_led();
      if (kind == StepKind::Embed) {
        embed(reinterpret_cast<const EmbedRows<T>*>(instruction.body));
      } else if (kind == StepKind::Likeliest && has(StepTuning::kBarriers) && group == 0) {
        const auto* rows = reinterpret_cast<const Likeliest<T>*>(instruction.body);
        if (rows->classes % kFullPack<T> == 0) {
          take_tokens<kFullPack<T>>(rows);
        } else {
          take_tokens<1>(rows);
        }
      }
    }
    if (i + 1 < step.count) sync_led();
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
    for (int group = 0; group < kGroups; ++group) rooms.ring_of(group).begin();
    end_of_begun();
  }
  if (warp == kWorkers / kWarp) bring<T>(step, rooms, 0);
  __syncthreads();
  if (warp > kWorkers / kWarp) {
    const int group = warp - kLed / kWarp;
    const int count =
        (step.left_out & (StepTuning::kProducts | StepTuning::kWeights)) == 0 ? step.product_count : 0;
    narrow::stream_weights<T>(step.products, count, rooms.ring_of(group), group);
  } else if (warp == kWorkers / kWarp) {
    lead<T>(step, rooms);
  } else {
    work<T>(step, step_room);
  }
#endif
}

}  // namespace twobw::models::cuda::step
