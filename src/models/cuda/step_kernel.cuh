// The kernel of a step: workers take one instruction after the other, a warp leads them. Between two
// instructions all blocks wait for each other; the workers' weights come meanwhile.
#pragma once

#include "models/cuda/likeliest.cuh"
#include "models/cuda/step_attention.cuh"
#include "models/cuda/step_program.h"

namespace twobw::models::cuda::step {

static_assert(likeliest::kThreads == kWorkers);

// An instruction and its gains to the block's shared memory, by the warp that leads.
template <typename T>
__device__ __forceinline__ void bring(const Arguments& step, const Rooms& rooms, int instruction) {
  const auto lane = static_cast<int>(threadIdx.x) % kWarp;
  StepInstruction* to = rooms.at(instruction);
  if (lane < static_cast<int>(sizeof(StepInstruction) / sizeof(uint4)))
    reinterpret_cast<uint4*>(to)[lane] =
        reinterpret_cast<const uint4*>(step.instructions + instruction)[lane];
  __syncwarp();
  if (to->kind != StepKind::Product) return;
  const auto& product = *reinterpret_cast<const FewRows<T>*>(to->body);
  if (product.gain == nullptr) return;
  const auto packs = static_cast<int>(product.in / narrow::kPack);
  uint4* gains = rooms.gains_of(instruction);
  for (int pack = lane; pack < packs; pack += kWarp)
    fetch(gains + pack, product.gain + pack * narrow::kPack, true, read_once_policy());
  end_group();
  await_groups<0>();
}

// Two barriers of the block stand between an instruction and the next: the workers are done; all blocks are.
template <typename T>
__device__ __forceinline__ void lead(const Arguments& step, const Rooms& rooms) {
  const bool is_first = threadIdx.x % kWarp == 0;
  for (int i = 0; i < step.count; ++i) {
    if (i > 0) {
      sync_block();
      if (is_first) {
        note_time(step, i - 1, 2);
        if ((step.left_out & StepTuning::kBarriers) == 0) await_grid(step.barrier);
        note_time(step, i, 0);
      }
    }
    sync_block();
    if (i + 1 < step.count) bring<T>(step, rooms, i + 1);
  }
}

// What products' loops share registers with is not inlined: the stream's state stays in registers.
template <bool Normed, typename T>
__device__ __noinline__ void stage(const FewRows<T>* product, narrow::Layout layout, T* staged,
                                   const uint4* gains) {
  const FewRows<T> given = *product;
  narrow::stage_rows<Normed>(
      given, layout, staged, gains, [] {}, SyncWorkers());
}

template <bool Gated, typename T>
__device__ __forceinline__ void multiply_all(const Arguments& step, const Rooms& rooms,
                                             const FewRows<T>* given, int instruction, int first,
                                             narrow::WeightStream<T>& weights) {
  const auto layout = narrow::Layout::of<Gated>(given->in);
  auto* staged = reinterpret_cast<T*>(rooms.staged);
  if ((step.left_out & StepTuning::kStaging) != 0) {
    SyncWorkers()();
  } else if (given->gain != nullptr) {
    stage<true>(given, layout, staged, rooms.gains_of(instruction));
  } else {
    stage<false>(given, layout, staged, nullptr);
  }
  if (threadIdx.x == 0) note_time(step, instruction, 1);
  const FewRows<T> product = *given;
  narrow::multiply_tiles<Gated>(product, layout, staged, rooms.sums, weights, first,
                                static_cast<int>(gridDim.x), SyncWorkers());
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

template <int N, typename T>
__device__ __noinline__ void take_tokens(const Likeliest<T>* given) {
  const Likeliest<T> rows = *given;
  const std::int64_t each = std::int64_t{kWorkers} * N, needed = (rows.classes + each - 1) / each;
  const unsigned blocks = needed < gridDim.x ? static_cast<unsigned>(needed) : gridDim.x;
  if (blockIdx.x >= blocks) return;
  for (int row = 0; row < rows.rows; ++row) {
    likeliest::take_part<N>(rows, row, blockIdx.x, blocks, SyncWorkers());
    SyncWorkers()();
  }
}

template <typename T>
__device__ __forceinline__ void work(const Arguments& step, const Rooms& rooms) {
  const bool has_products = (step.left_out & StepTuning::kProducts) == 0;
  const bool has_attention = (step.left_out & StepTuning::kAttention) == 0;
  const bool has_barriers = (step.left_out & StepTuning::kBarriers) == 0;
  narrow::WeightStream<T> weights(rooms.products, has_products ? step.product_count : 0, rooms.ring,
                                  step.depth);
  narrow::Deal deal;
  for (int i = 0; i < step.count; ++i) {
    const StepInstruction& instruction = *rooms.at(i);
    const StepKind kind = instruction.kind;
    if (kind == StepKind::Product) {
      const auto* product = reinterpret_cast<const FewRows<T>*>(instruction.body);
      const int first = deal.first();
      deal.pass(static_cast<int>((product->columns + narrow::kTile - 1) / narrow::kTile));
      sync_block();
      if (has_products && product->gated) {
        multiply_all<true>(step, rooms, product, i, first, weights);
      } else if (has_products) {
        multiply_all<false>(step, rooms, product, i, first, weights);
      }
    } else if (kind == StepKind::Attend && has_attention) {
      const auto* attention = reinterpret_cast<const CachedAttention<T>*>(instruction.body);
      with_shape_of(*attention, [&]<typename S>(S) { attend_parts<S>(attention, rooms.staged); });
    } else if (kind == StepKind::Join && has_attention) {
      const auto* attention = reinterpret_cast<const CachedAttention<T>*>(instruction.body);
      join_all(attention, (instruction.how & kJoinsAsClusters) != 0);
    } else {
      sync_block();
      if (kind == StepKind::Embed) {
        embed(reinterpret_cast<const EmbedRows<T>*>(instruction.body));
      } else if (kind == StepKind::Likeliest && has_barriers) {  // which blocks count by
        const auto* rows = reinterpret_cast<const Likeliest<T>*>(instruction.body);
        if (rows->classes % kFullPack<T> == 0) {
          take_tokens<kFullPack<T>>(rows);
        } else {
          take_tokens<1>(rows);
        }
      }
    }
    if (i + 1 < step.count) sync_block();
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) step_kernel(const __grid_constant__ Arguments step) {
  extern __shared__ uint4 step_room[];
  const Rooms rooms = Rooms::of(step, step_room);
  for (int i = static_cast<int>(threadIdx.x); i < step.product_count; i += kThreads)
    reinterpret_cast<uint4*>(rooms.products)[i] = reinterpret_cast<const uint4*>(step.products)[i];
  if (threadIdx.x >= kWorkers) bring<T>(step, rooms, 0);
  __syncthreads();
  if (threadIdx.x >= kWorkers) {
    lead<T>(step, rooms);
  } else {
    work<T>(step, rooms);
  }
}

}  // namespace twobw::models::cuda::step
