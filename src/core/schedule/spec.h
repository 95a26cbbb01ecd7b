// The integers that determine a schedule, and the quantities derived from them.
//
//   symbol   function                   meaning, at stage r of d
//   n_r      in_flight_bound()          microbatches between their forward and their backward, at most
//   e_r      extra_at()                 extra ones of these, to hide transfers: e at stage 0, 0 at the last
//   k_r      gradients_at_predict()     gradients of batch j-1 that P(j) is predicted from: m - n_r + 1
//   q        predicted_microbatches()   first microbatches of a batch that run on P(j); the rest run on W(j)
//   L        update_slack()             backwards between the end of batch j and the first forward that needs
//                                       the update with its gradient
//
// d, w, b, m, e: core/base/pipeline_shape.h. k = microbatch, j = k / m = batch, W(t) = weights after t
// updates, P(j) = prediction of W(j).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/pipeline_shape.h"

namespace twobw::schedule {

using Kind = ScheduleKind;
using twobw::all_kinds;
using twobw::name;

struct Spec {
  PipelineShape shape;
  std::int64_t updates = 1;
  // The first sync_updates batches run under flush; then the schedule takes over.
  std::int64_t sync_updates = 0;
  // Updates between evaluations of the newest weights; the last update is evaluated too. 0: never.
  std::int64_t evaluate_every = 0;
  // Updates between saves, the last excluded. 0: only on Stream::save_before.
  std::int64_t save_every = 0;
  bool save_last = false;  // also after the last update
  bool saves = true;       // false for replicas that do not save

  // A resumed run begins with this batch j, from the checkpoint after j updates.
  std::int64_t first_batch = 0;
  // The checkpoint has W(j) alone, so that batch j runs on it, as after a synchronous one.
  bool begins_drained = false;
};

// Throws InputError if no run is possible: sizes below 1, or m below its bound.
void validate(const Spec& spec);

// Throws InputError that lists the known names.
Kind parse_kind(std::string_view name);

// The spec of one replica. Only the first evaluates and saves, because all hold the same weights; with
// sharded state every replica takes part with its shard.
Spec of_replica(Spec spec, int replica);

// "stage 1", or "replica 0 stage 1" if there are several replicas, for reports. Workers are numbered pipeline
// after pipeline: stage r of replica p is worker p*d + r.
std::string worker_name(int replicas, int replica, int stage);

// --- Which weights does a batch or microbatch use? ---

// 2bw and stash: gradients may come from older weights than those they update.
bool is_delayed(Kind kind);
// Number of batches that run under flush before a delayed schedule takes over.
std::int64_t synchronous_batches(const Spec& spec);
// Batch j runs under flush.
bool is_synchronous(const Spec& spec, std::int64_t batch);
// Batch j begins a resumed run and has only W(j) to run on.
bool resumes_drained(const Spec& spec, std::int64_t batch);
// Batch j begins on P(j): under 2bw with prediction, unless it has W(j) anyway, as synchronous batches and
// the one after them do.
bool is_predicted(const Spec& spec, std::int64_t batch);
// Microbatch k runs on P(j).
bool runs_on_prediction(const Spec& spec, std::int64_t microbatch);
// q. All m of them if P(j+1) would not find the buffer of P(j) free, that is m < 2(d-1+e) + step_slack, or
// with one gradient buffer, for which the last stage would need a second version to step into.
int predicted_microbatches(const Spec& spec);
// q < m.
bool switches_to_true_weights(const Spec& spec);
// Version t of the weights that stage r runs microbatch k on, forward and backward: of W(t), or of P(t) if it
// runs on a prediction.
std::int64_t version_of(const Spec& spec, int stage, std::int64_t microbatch);

// --- Which gradients does a prediction use? ---

// k_r.
int gradients_at_predict(const Spec& spec, int stage);
// k_r; with replicas one fewer, if there are two, so that one microbatch hides the sum over replicas.
int predicted_from(const Spec& spec, int stage);
// Every stage predicts from at least half a batch, or does not predict. Fewer microbatches predict badly.
bool predicts_well(const Spec& spec);
// "5, 6, 7, 8 of 8 microbatches of the batch before, for the first 4 of a batch; the others run on true
// weights", by stage.
std::string describe_prediction(const Spec& spec);

// --- What does a stage hold? ---

// Smallest m of the schedule: under 2bw d+e with prediction and d-1+e without (at least 1), else 1.
int smallest_microbatches(const Spec& spec);
// e_r: in even steps from e at stage 0 to none at the last. The step from stage to stage hides the transfer
// between them: stage r runs the backward of a microbatch n_r - n_s + 1 microbatches after it sent it to s.
int extra_at(const Spec& spec, int stage);
// n_r.
int in_flight_bound(const Spec& spec, int stage);
// Weight versions that stage r keeps at once, including the one being written.
int versions_kept(const Spec& spec, int stage);
// Gradient buffers of stage r: 2 if the sum of batch j may be in progress while batch j+1 accumulates.
int gradient_buffers(const Spec& spec, int stage);
// Some stage has two gradient buffers.
bool has_second_gradient(const Spec& spec);
// Place of W(t), or P(t), among all weights that a stage computes with, in the order in which they are
// written; W(0) has 0. With n versions kept it is in weight buffer `generation % n`.
std::int64_t generation_of(const Spec& spec, std::int64_t version, bool predicted);
// Generations that the microbatches of batch j read at stage r in addition to W(j) and W(j+1), oldest first:
// P(j) or W(j-1) under 2bw, possibly more under stash. A checkpoint after j updates needs them.
std::vector<std::int64_t> older_generations(const Spec& spec, int stage, std::int64_t batch);
// The newest generation when the run begins: 0, or in a resumed run the one that Restore follows.
std::int64_t first_generation(const Spec& spec);

// --- When does a stage step? ---

// L. Under 2bw.
int update_slack(const Spec& spec, int stage);
// Stage r steps as late as its buffers allow, which leaves the most time to sums over stages and replicas:
// right before the first forward on the new weights, or with one gradient buffer right before the first
// backward of the next batch. False if the stage waits for nobody or has no time for it. Stage 0 ends every
// batch last, so without replicas it waits only for the other end of a tie (defer_tied_update). A stage that
// predicts from all gradients steps after the prediction.
bool steps_late(const Spec& spec, int stage);

// Two updates between whose ends every worker is in the steady state, however late it steps: filling,
// draining and a synchronous start are outside. Null if the run is too short.
struct SteadyState {
  std::int64_t first = 0;
  std::int64_t last = 0;
};
std::optional<SteadyState> steady_state(const Spec& spec, std::int64_t updates);

}  // namespace twobw::schedule
