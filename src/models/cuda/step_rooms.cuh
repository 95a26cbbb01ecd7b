// What a step in one kernel is launched with, and how a block's shared memory is divided.
#pragma once

#include "models/cuda/cached_attend.cuh"
#include "models/cuda/few_rows_tiles.cuh"
#include "models/cuda/grid_barrier.cuh"
#include "models/cuda/step_notes.h"
#include "models/cuda/weight_stream.cuh"

namespace twobw::models::cuda::step {

constexpr int kWorkers = narrow::kThreads;
constexpr int kThreads =
    kWorkers + kWarp;  // one more warp leads: instructions, gains, and the grid's barrier
constexpr int kTeams = kWorkers / cached::kThreads;  // of attention

struct Arguments {
  const StepInstruction* instructions = nullptr;
  const narrow::Streamed* products = nullptr;
  unsigned* barrier = nullptr;
  long long* times = nullptr;  // [blocks, count, 3]: let go, staged, done; null: not wanted
  int count = 0, product_count = 0;
  int depth = 0;
  int staged_bytes = 0, sums_bytes = 0, gains_bytes = 0;  // whole packs of 16
  unsigned left_out = 0;

  std::size_t room() const {
    return static_cast<std::size_t>(depth) * narrow::kLoads * narrow::kThreads * sizeof(uint4) +
           staged_bytes + sums_bytes + 2 * gains_bytes + product_count * sizeof(narrow::Streamed) +
           2 * sizeof(StepInstruction);
  }
};

// The rings; rows, or what attention's warps leave for each other; the warps' sums; the gains of this
// instruction and of the next; the products; this instruction and the next.
struct Rooms {
  uint4* ring;
  std::byte* staged;
  float* sums;
  std::byte* gains;
  narrow::Streamed* products;
  StepInstruction* instructions;
  int gains_bytes;

  __device__ static Rooms of(const Arguments& step, uint4* room) {
    auto* staged = reinterpret_cast<std::byte*>(room + step.depth * narrow::kLoads * narrow::kThreads);
    std::byte *sums = staged + step.staged_bytes, *gains = sums + step.sums_bytes,
              *products = gains + 2 * step.gains_bytes;
    std::byte* instructions = products + step.product_count * sizeof(narrow::Streamed);
    return {.ring = room,
            .staged = staged,
            .sums = reinterpret_cast<float*>(sums),
            .gains = gains,
            .products = reinterpret_cast<narrow::Streamed*>(products),
            .instructions = reinterpret_cast<StepInstruction*>(instructions),
            .gains_bytes = step.gains_bytes};
  }
  __device__ uint4* gains_of(int instruction) const {
    return reinterpret_cast<uint4*>(gains + instruction % 2 * gains_bytes);
  }
  __device__ StepInstruction* at(int instruction) const { return instructions + instruction % 2; }
};

// Barriers: of the block, of the workers, of a team.
__device__ __forceinline__ void sync_block() {
  sync_threads<0, kThreads>();
}
struct SyncWorkers {
  __device__ void operator()() const { sync_threads<1, kWorkers>(); }
};
static_assert(kTeams == 2);
struct SyncTeam {
  int team;
  __device__ void operator()() const {
    if (team == 0)
      sync_threads<2, cached::kThreads>();
    else
      sync_threads<3, cached::kThreads>();
  }
};

__device__ __forceinline__ void note_time(const Arguments& step, int instruction, int what) {
  if (step.times == nullptr) return;
  step.times[(static_cast<std::int64_t>(blockIdx.x) * step.count + instruction) * 3 + what] = clock64();
}

}  // namespace twobw::models::cuda::step
