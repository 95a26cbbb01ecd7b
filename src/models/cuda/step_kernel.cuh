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

template <bool Gated, typename T>
__device__ __forceinline__ void multiply_all(const Arguments& step, const Rooms& rooms, int instruction,
                                             const narrow::Deal& deal, narrow::StreamedWeights& weights,
                                             const int* parts) {
  const Command& command = *rooms.at(instruction);
  const auto* given = reinterpret_cast<const FewRows<T>*>(command.what.body);
  const auto layout = narrow::Layout::of<Gated>(given->in);
  auto* staged = reinterpret_cast<T*>(rooms.staged);
  if ((step.left_out & StepTuning::kStaging) != 0) {
    SyncWorkers()();
  } else if (given->gain != nullptr) {
    stage_normed(given, layout, staged, rooms.gains_of(instruction));
  } else if (command.joins()) {
    stage_joined(reinterpret_cast<const CachedAttention<T>*>(command.rows_from.body), layout, staged, parts);
  } else {
    stage_as_they_are(given, layout, staged);
  }
  if (threadIdx.x == 0) note_time(step, instruction, 1);
  const int group = static_cast<int>(threadIdx.x) / narrow::kThreads;
  const FewRows<T> product = *given;
  narrow::multiply_streamed<Gated>(product, staged, rooms.sums_of(group), weights,
                                   static_cast<int>(threadIdx.x) % narrow::kThreads, deal.first(group),
                                   narrow::Deal::all(), SyncGroup{group});
}

template <typename T>
__device__ __noinline__ void embed(const EmbedRows<T>* given) {
  const EmbedRows<T> rows = *given;
  constexpr int N = kFullPack<T>;
  const int packs = rows.width / N, all = packs * rows.rows;
  for (int i = static_cast<int>(blockIdx.x * kWorkers + threadIdx.x); i < all;
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
__device__ __noinline__ void take_tokens(const Likeliest<T>* given) {
  const Likeliest<T> rows = *given;
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
__device__ __forceinline__ void work(const Arguments& step, const Rooms& rooms) {
  __shared__ int parts[kMostFewRows];
  const bool has_products = (step.left_out & StepTuning::kProducts) == 0;
  const bool has_attention = (step.left_out & StepTuning::kAttention) == 0;
  const bool has_barriers = (step.left_out & StepTuning::kBarriers) == 0;
  const int group = static_cast<int>(threadIdx.x) / narrow::kThreads;
  narrow::StreamedWeights weights(rooms.ring_of(group));
  narrow::Deal deal;
  for (int i = 0; i < step.count; ++i) {
    const Command& command = *rooms.at(i);
    const StepInstruction& instruction = command.what;
    const StepKind kind = instruction.kind;
    if (kind == StepKind::Product) {
      if (command.joins())
        count_parts(reinterpret_cast<const CachedAttention<T>*>(command.rows_from.body), parts);
      sync_led();
      const auto* product = reinterpret_cast<const FewRows<T>*>(instruction.body);
      if (has_products && product->gated) {
        multiply_all<true, T>(step, rooms, i, deal, weights, parts);
      } else if (has_products) {
        multiply_all<false, T>(step, rooms, i, deal, weights, parts);
      }
      deal.pass(static_cast<int>((product->columns + narrow::kTile - 1) / narrow::kTile));
    } else if (kind == StepKind::Attend && has_attention) {
      const auto* attention = reinterpret_cast<const CachedAttention<T>*>(instruction.body);
      with_shape_of(*attention, [&]<typename S>(S) { attend_parts<S>(attention, rooms.staged); });
    } else if (kind == StepKind::Join && has_attention) {
      const auto* attention = reinterpret_cast<const CachedAttention<T>*>(instruction.body);
      join_all(attention, (instruction.how & kJoinsAsClusters) != 0);
    } else {
      sync_led();
      if (kind == StepKind::Embed) {
        embed(reinterpret_cast<const EmbedRows<T>*>(instruction.body));
      } else if (kind == StepKind::Likeliest && has_barriers && group == 0) {  // blocks count by barriers
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
    const int count = (step.left_out & StepTuning::kProducts) == 0 ? step.product_count : 0;
    if (threadIdx.x % kWarp == 0)
      narrow::stream_weights<T>(step.products, count, rooms.ring_of(group), group);
  } else if (warp == kWorkers / kWarp) {
    lead<T>(step, rooms);
  } else {
    work<T>(step, rooms);
  }
#endif
}

}  // namespace twobw::models::cuda::step
