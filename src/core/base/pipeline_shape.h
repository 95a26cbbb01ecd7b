// The shape of a pipeline. Configuration, schedule, planner and runtime embed it.
//
//   d stages, r = 0..d-1          m microbatches per update       e extra microbatches in flight
//   w replicas, p = 0..w-1: whole pipelines that share every update, m microbatches each
//   b sequences in a microbatch   B = b*w*m sequences an update
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace twobw {

// Largest sizes. Products and sums of these fit 64 bits, and B an int.
inline constexpr int kMostStages = 1 << 16;
inline constexpr int kMostWorkers = 1024;  // of several replicas
inline constexpr int kMostMicrobatches = 1'000'000;
inline constexpr int kLargestMicrobatch = 1'000'000;
inline constexpr int kMostExtra = 1 << 16;
inline constexpr int kLargestBatch = 1'000'000'000;
inline constexpr std::int64_t kMostUpdates = 1'000'000'000'000;

enum class ScheduleKind { Sequential, GPipe, Flush, TwoBW, Stash };

std::string_view name(ScheduleKind kind);
const std::vector<ScheduleKind>& all_kinds();

struct PipelineShape {
  ScheduleKind schedule = ScheduleKind::TwoBW;
  int stages = 2;        // d
  int replicas = 1;      // w
  int microbatch = 4;    // b
  int microbatches = 8;  // m, for each replica
  int extra = 0;         // e
  // Layers of each stage, in order; empty: undecided.
  std::vector<int> split = {};
  // Stages that keep only their input and run the forward again before the backward.
  std::vector<int> recompute = {};
  // Under 2bw: the next batch accumulates in a second gradient buffer while a gradient waits for other stages
  // or replicas. With one buffer a stage that waits runs no backward until its update is made.
  bool double_buffer_gradients = true;
  // Under 2bw with one replica: the first stage also steps late and has a second gradient buffer, because it
  // waits for the other end of a tie.
  bool defer_tied_update = false;
  // Under 2bw: batch j computes on P(j), a prediction of W(j); without it on W(j-1), as in the paper.
  bool predict = true;
  // With prediction: microbatches of time for the sums and the step before a batch switches to W(j), if m has
  // room for it (schedule::predicted_microbatches).
  int step_slack = 1;
  // Every replica of a stage keeps the optimizer state of one shard of the weights, updates it and sends it
  // to the others (ZeRO). Without it each keeps all of it.
  bool shard_state = false;

  int first_layer(int stage) const;                                              // requires a split
  int last_layer(int stage) const { return first_layer(stage) + split[stage]; }  // one past the last
  bool recomputes(int stage) const;
  bool predicts() const { return schedule == ScheduleKind::TwoBW && predict; }
  // Replicas that share the optimizer state of a stage.
  int owners() const { return shard_state ? replicas : 1; }
  bool shards() const { return owners() > 1; }

  int workers() const { return replicas * stages; }
  int batch() const { return microbatch * microbatches * replicas; }  // B, at most kLargestBatch

  friend bool operator==(const PipelineShape&, const PipelineShape&) = default;
};

// The fixed values of a shape; the others are free.
struct PartialShape {
  std::optional<ScheduleKind> schedule = {};
  std::optional<int> stages = {}, replicas = {}, microbatch = {}, microbatches = {}, extra = {};
  std::optional<bool> recompute = {};  // all stages, or none
  std::optional<bool> double_buffer_gradients = {};
  std::optional<bool> defer_tied_update = {};
  std::optional<bool> predict = {};
  std::optional<int> step_slack = {};
  std::optional<bool> shard_state = {};
  // These fix each stage, so `stages` must be fixed too.
  std::vector<int> split = {};                       // empty: free
  std::optional<std::vector<int>> recomputing = {};  // replaces `recompute`

  // Null: free.
  std::optional<int> first_layer(int stage) const;
  std::optional<bool> recomputes(int stage) const;
};

}  // namespace twobw
