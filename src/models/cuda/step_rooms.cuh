// What a step in one kernel is launched with, and how a block's shared memory is divided.
#pragma once

#include "models/cuda/cached_attend.cuh"
#include "models/cuda/grid_barrier.cuh"
#include "models/cuda/step_notes.h"
#include "models/cuda/step_tiles.cuh"

namespace twobw::models::cuda::step {

// Groups of workers; a warp that leads: instructions, gains and the grid's barrier; a warp a group that
// streams its weights.
constexpr int kGroups = narrow::kStreams;
constexpr int kWorkers = kGroups * narrow::kThreads;
constexpr int kLed = kWorkers + kWarp;
constexpr int kThreads = kLed + kGroups * kWarp;
constexpr int kTeams = kWorkers / cached::kThreads;  // of attention

// This thread's index, read anew: what is made of it in one instruction is not kept over all others.
__device__ __forceinline__ int own_thread() {
  int thread = 0;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}

// An instruction; a product may put its rows together from the parts that attention left.
struct Command {
  StepInstruction what;
  StepInstruction rows_from;  // StepKind::Join: that attention; else nothing
  // What is added to a product's first tiles is there before the instruction before is done.
  alignas(16) bool adds_early = false;

  TWOBW_HOST_DEVICE bool joins() const { return rows_from.kind == StepKind::Join; }
};

struct Arguments {
  const Command* commands = nullptr;
  const narrow::Streamed* products = nullptr;
  unsigned* barrier = nullptr;
  long long* times = nullptr;  // [blocks, count, 3]: let go, staged, done; null: not wanted
  int count = 0, product_count = 0;
  int stages = 0, rounds = 0, most_asked = 0;             // of a group's ring, of a stage
  int staged_bytes = 0, sums_bytes = 0, gains_bytes = 0;  // whole packs of 16; sums of a group
  unsigned left_out = 0;

  std::size_t room() const {
    const std::size_t of_ring =
        static_cast<std::size_t>(stages) * (narrow::stage_bytes(rounds) + 2 * sizeof(std::uint64_t));
    return kGroups * (of_ring + static_cast<std::size_t>(sums_bytes)) +
           static_cast<std::size_t>(staged_bytes + 2 * gains_bytes) + 2 * sizeof(Command);
  }
};

// The rings; rows, or what attention's warps leave for each other; the warps' sums; the gains of this
// instruction and of the next; this instruction and the next; the rings' barriers.
struct Rooms {
  std::byte *rings, *staged, *sums, *gains;
  Command* commands;
  std::uint64_t* barriers;
  int stages, rounds, most_asked, sums_bytes, gains_bytes;

  // Made anew where it is used, as own_thread() is.
  __device__ static Rooms of(const Arguments& step, uint4* room) {
    int begin = 0;
    asm volatile("mov.u32 %0, 0;" : "=r"(begin));
    auto* rings = reinterpret_cast<std::byte*>(room) + begin;
    std::byte *staged = rings + kGroups * step.stages * narrow::stage_bytes(step.rounds),
              *sums = staged + step.staged_bytes, *gains = sums + kGroups * step.sums_bytes,
              *commands = gains + 2 * step.gains_bytes, *barriers = commands + 2 * sizeof(Command);
    return {.rings = rings,
            .staged = staged,
            .sums = sums,
            .gains = gains,
            .commands = reinterpret_cast<Command*>(commands),
            .barriers = reinterpret_cast<std::uint64_t*>(barriers),
            .stages = step.stages,
            .rounds = step.rounds,
            .most_asked = step.most_asked,
            .sums_bytes = step.sums_bytes,
            .gains_bytes = step.gains_bytes};
  }
  __device__ narrow::Ring ring_of(int group) const {
    return {.stages = shared_address(rings) + group * stages * narrow::stage_bytes(rounds),
            .barriers = shared_address(barriers) + group * stages * 16,
            .count = stages,
            .rounds = rounds,
            .most_asked = most_asked};
  }
  __device__ float* sums_of(int group) const { return reinterpret_cast<float*>(sums + group * sums_bytes); }
  __device__ uint4* gains_of(int instruction) const {
    return reinterpret_cast<uint4*>(gains + instruction % 2 * gains_bytes);
  }
  __device__ Command* at(int instruction) const { return commands + instruction % 2; }
};

// Barriers: of all but those that stream, of the workers, of a group, of a team.
__device__ __forceinline__ void sync_led() {
  sync_threads<1, kLed>();
}
struct SyncWorkers {
  __device__ void operator()() const { sync_threads<2, kWorkers>(); }
};
struct SyncGroup {
  int group;
  __device__ void operator()() const { sync_threads<narrow::kThreads>(3 + group); }
};
struct SyncTeam {
  int team;
  __device__ void operator()() const { sync_threads<cached::kThreads>(3 + kGroups + team); }
};
static_assert(3 + kGroups + kTeams <= 16);

__device__ __forceinline__ void note_time(const Arguments& step, int instruction, int what) {
  if (step.times == nullptr) return;
  step.times[(static_cast<std::int64_t>(blockIdx.x) * step.count + instruction) * 5 + what] = clock64();
}
__device__ __forceinline__ void note_ready(const Arguments& step, int instruction, int what,
                                           const narrow::Ring& ring, narrow::Place place) {
  if (step.times == nullptr) return;
  int ready = 0;
  for (; ready < ring.count && has_ended(ring.there(place.index), place.parity); ++ready) place.advance(ring);
  step.times[(static_cast<std::int64_t>(blockIdx.x) * step.count + instruction) * 5 + what] = ready;
}

}  // namespace twobw::models::cuda::step
