// What a schedule is asked to do: integers only. The letters are those of core/base/pipeline_shape.h;
//
//   microbatch k = 0,1,2,...      batch j = k / m                 version t = the weights W(t)
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
  // The first sync_updates batches run under Flush, then the schedule takes over.
  std::int64_t sync_updates = 0;
  // Evaluate the newest weights after every so many updates, and after the last; 0: never.
  std::int64_t evaluate_every = 0;
  // Save after every so many updates but the last; 0: only where a batch begins with Stream::save_before.
  std::int64_t save_every = 0;
  bool save_last = false;  // and after the last
  bool saves = true;       // whether this replica does

  // A resumed run begins with this batch j, from the checkpoint after j updates.
  std::int64_t first_batch = 0;
  // The checkpoint has W(j) alone, so that batch runs on it, as after a synchronous one.
  bool begins_drained = false;
};

// Workers are numbered pipeline after pipeline: stage r of replica p is worker p*d + r.
// "stage 1", or "replica 0 stage 1" where there are several, as it appears in reports.
std::string worker_name(int replicas, int replica, int stage);

// What one replica is to do: the first alone evaluates and saves, for all hold the same weights. Where each
// holds a part of them the others come to it, too, with theirs.
Spec of_replica(Spec spec, int replica);

// Whether gradients may come from older weights than those they update: 2bw and stash.
bool is_delayed(Kind kind);
// Throws InputError that lists the known names.
Kind parse_kind(std::string_view name);

// Throws InputError when no run is possible: sizes below 1, or m below its bound.
void validate(const Spec& spec);

// The smallest m that the schedule can run with: under 2BW d+e with prediction and d-1+e without (at least
// 1), else 1.
int smallest_microbatches(const Spec& spec);

// Of the e extra microbatches those that stage r may hold: all at the first, none at the last, in even
// steps between. It is the step from stage to stage that hides the transfer between them: r comes back
// to a forward n_r - n_s + 1 microbatches after it forwarded to s, n being the bounds in flight.
int extra_at(const Spec& spec, int stage);

// Most microbatches that stage r holds between their forward and their backward.
int in_flight_bound(const Spec& spec, int stage);

// The same for microbatch k alone: smaller while the first, synchronous updates last.
int window(const Spec& spec, int stage, std::int64_t microbatch);

// Whether batch j is the first of a resumed run and has nothing but W(j) to run on.
bool resumes_drained(const Spec& spec, std::int64_t batch);

// Batches that run under Flush before the schedule takes over: sync_updates, where it makes a
// difference.
std::int64_t synchronous_batches(const Spec& spec);

// Whether batch j runs under Flush.
bool is_synchronous(const Spec& spec, std::int64_t batch);

// Whether batch j's update may wait while later microbatches run: 2BW, but for its synchronous batches.
bool delays_steps(const Spec& spec, std::int64_t batch);

// Whether batch j computes on P(j): under 2BW with prediction, but not the synchronous batches nor the one
// after them, which has W(j) anyway.
bool predicts(const Spec& spec, std::int64_t batch);

// Of a predicted batch, the microbatches that run on P(j), the first ones: the others run on W(j), which is
// made by then. That takes room, so that P(j+1) finds the buffer of P(j) free: where m is below
// 2(d-1+e) + slack, all of them. Likewise with one gradient buffer, where the last stage would need a second
// version to step into.
int predicted_microbatches(const Spec& spec);
// Whether there are others.
bool switches_to_true_weights(const Spec& spec);
// Whether microbatch k runs on P(j).
bool runs_predicted(const Spec& spec, std::int64_t microbatch);

// Of how many microbatches of batch j-1 stage r has the gradients when it predicts P(j): k_r. With replicas,
// whose parts are summed first, those that it takes are fewer by the ones that hide the sum.
int gradients_at_predict(const Spec& spec, int stage);
int predicted_from(const Spec& spec, int stage);
// Whether every stage predicts from half of a batch at least, or does not predict. Few microbatches predict
// badly.
bool predicts_well(const Spec& spec);
// "5, 6, 7, 8 of 8 microbatches of the batch before, for the first 4 of a batch; the others run on true
// weights", by stage.
std::string describe_prediction(const Spec& spec);

// Under 2BW, microbatches whose backward stage r runs between the end of batch j and the first forward that
// needs W(j+1).
int update_slack(const Spec& spec, int stage);

// Whether stage r steps as late as its buffers allow, which leaves what crosses stages and replicas the most
// time: right before the first forward on the new weights, or with one gradient buffer right before the first
// backward of the next batch. Not where it has nothing to wait for (stage 0 ends every batch last, and
// without replicas has all it needs by then, but for a tie that is on its way: defer_tied_update), nor where
// there is no time. A stage that predicts with all gradients in steps after that, too.
bool steps_late(const Spec& spec, int stage);

// Weight versions that stage r keeps at once, the one being written included.
int versions_kept(const Spec& spec, int stage);

// Gradient buffers of stage r: 2 where batch j's gradient still waits for other stages or replicas while
// batch j+1 already accumulates, if a second one is wanted.
int gradient_buffers(const Spec& spec, int stage);

// Whether any stage has a second one.
bool has_second_gradient(const Spec& spec);

// Two updates between whose ends every worker is in the steady state of the schedule, however late it steps:
// filling, draining and a synchronous start are outside. None if the run is too short.
struct SteadyState {
  std::int64_t first = 0;
  std::int64_t last = 0;
};
std::optional<SteadyState> steady_state(const Spec& spec, std::int64_t updates);

// Updates that stage r makes before it forwards microbatch k.
std::int64_t updates_before(const Spec& spec, int stage, std::int64_t microbatch);

// The version on which stage r runs microbatch k, forward and backward alike: t of W(t), or of P(t) where
// the batch is predicted.
std::int64_t version_of(const Spec& spec, int stage, std::int64_t microbatch);

// What the microbatches of batch j read at stage r besides W(j) and W(j+1), as generations, oldest first:
// P(j) or W(j-1) under 2BW, under stash perhaps more. A checkpoint after j updates needs them.
std::vector<std::int64_t> older_generations(const Spec& spec, int stage, std::int64_t batch);

// The newest generation when the run begins: 0, or of a resumed run what Restore writes after.
std::int64_t first_generation(const Spec& spec);

// The place of W(t), or P(t), among all that a stage computes with, in the order in which it is written: 0 is
// W(0). With n versions kept it lies in weight buffer `generation % n`.
std::int64_t generation_of(const Spec& spec, std::int64_t version, bool predicted);

}  // namespace twobw::schedule
