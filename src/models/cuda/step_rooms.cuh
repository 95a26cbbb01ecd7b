// What a step in one kernel is launched with, and how a block's shared memory is divided.
#pragma once

#include "models/cuda/cached_attend.cuh"
#include "models/cuda/grid_barrier.cuh"
#include "models/cuda/step_notes.h"
#include "models/cuda/step_tile_end.cuh"

namespace twobw::models::cuda::step {

// Warps that work, of which groups stage rows; a warp that leads: instructions, gains, the ends of tiles and
// the grid's barrier; a warp that streams the weights.
constexpr int kWorkers = narrow::kSharing * kWarp;
constexpr int kGroups = kWorkers / narrow::kThreads;
constexpr int kLed = kWorkers + kWarp;
constexpr int kThreads = kLed + kWarp;
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
  int turn = 0;                     // narrow::Deal's, of a product
  int next_gains = 0;               // packs of 16 bytes
  const void* next_gain = nullptr;  // of the product that comes next; null: it has none

  __device__ int first_tile() const { return narrow::Deal{turn}.first(); }
  TWOBW_HOST_DEVICE bool joins() const { return rows_from.kind == StepKind::Join; }
};

struct Arguments {
  const Command* commands = nullptr;
  const narrow::Streamed* products = nullptr;
  unsigned* barrier = nullptr;
  int count = 0, product_count = 0;
  const void* first_gain = nullptr;  // of the first instruction, as Command::next_gain
  int first_gains = 0;
  int stages = 0, most_asked = 0;                         // of the ring
  int staged_bytes = 0, sums_bytes = 0, gains_bytes = 0;  // whole packs of 16

  std::size_t room() const {
    return static_cast<std::size_t>(stages) * (narrow::kStageBytes + kBarriers) + kOtherBarriers +
           static_cast<std::size_t>(sums_bytes + staged_bytes + 2 * gains_bytes) + 2 * sizeof(Command);
  }
  static constexpr std::size_t kBarriers = 16;  // of a stage
  static constexpr std::size_t kOtherBarriers = 16 + 16 * narrow::TileSums::kCount;
};

// The ring; rows, or what attention's warps leave for each other; the warps' sums; the gains of this
// instruction and of the next; this instruction and the next; barriers: that an instruction is there, of the
// sums, of the ring.
struct Rooms {
  std::byte *ring_room, *staged, *sums_room, *gains;
  Command* commands;
  std::uint64_t* barriers;
  int stages, most_asked, gains_bytes;

  // Made anew where it is used, as own_thread() is.
  __device__ static Rooms of(const Arguments& step, uint4* room) {
    int begin = 0;
    asm volatile("mov.u32 %0, 0;" : "=r"(begin));
    auto* ring = reinterpret_cast<std::byte*>(room) + begin;
    std::byte *staged = ring + step.stages * narrow::kStageBytes, *sums = staged + step.staged_bytes,
              *gains = sums + step.sums_bytes, *commands = gains + 2 * step.gains_bytes,
              *barriers = commands + 2 * sizeof(Command);
    return {.ring_room = ring,
            .staged = staged,
            .sums_room = sums,
            .gains = gains,
            .commands = reinterpret_cast<Command*>(commands),
            .barriers = reinterpret_cast<std::uint64_t*>(barriers),
            .stages = step.stages,
            .most_asked = step.most_asked,
            .gains_bytes = step.gains_bytes};
  }
  __device__ unsigned told() const { return shared_address(barriers); }
  __device__ narrow::TileSums sums() const {
    return {.sums = reinterpret_cast<float*>(sums_room), .barriers = shared_address(barriers) + 16};
  }
  __device__ narrow::Ring ring() const {
    return {.stages = shared_address(ring_room),
            .barriers = shared_address(barriers) + static_cast<unsigned>(Arguments::kOtherBarriers),
            .count = stages,
            .most_asked = most_asked};
  }
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

}  // namespace twobw::models::cuda::step
