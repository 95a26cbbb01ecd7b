// How long an update takes, in closed form.
//
// Stage r of d computes F_r = f_r + b_r a microbatch (and f_r again where it recomputes), a transfer to the
// next stage takes c_r each way, n_r microbatches are in flight (schedule::in_flight_bound). One microbatch
// alone goes through stages r..q and back in
//
//   S(r,q) = F_r + .. + F_q + 2 (c_r + .. + c_(q-1)),    S = S(0,d-1).
//
// Every stage carries out its list in order. So after the forward of microbatch k, stage q runs the
// backward of k-n_q+1; r then has room for the forward of k-n_q+1+n_r. Going round like this takes S(r,q),
// and n_r-n_q+1 microbatches pass meanwhile. No other loop is slower than all of these, hence the time from
// one microbatch to the next, once the pipeline is full, is exactly
//
//   P = max over r <= q of S(r,q) / (n_r-n_q+1)             (q = r: the computation of the stage itself)
//
// and with each link busy for l_r a transfer, at least l_r. The stages of a node share its end of the
// network, if that is shared: P is at least the sum of their transfers per microbatch, and an update at least
// all they send, including sums and a tie (costs/shared_links.h). An update of m microbatches takes
//
//   2bw         m max(P, F_r + (step_r + max(0, reduce_r - (m-n_r+1) F_r)) / m)
//               (m-n_r+1 microbatches run between the end of a batch's gradients and the need for them;
//               replicas that predict sum their gradients a second time, while one microbatch runs; reduce_r
//               includes the queue of other sums of the node; a step that runs during a sum hides it), and at
//               least the bounds from a tie, and from a stage that waits long for the sum it predicts from
//   ..., with one gradient buffer the same, but at least
//               S' + (m-1) P + max (reduce_r + step_r)
//               (no stage runs a backward of the next batch before the first stage has run the last of this
//               one; S' = b_0 + .. + b_(d-1) + c_0 + .. + c_(d-2) is the way back, where all forwards are
//               done)
//   flush       S + (m-1) P + max (reduce_r + step_r), where only stages with n_r < m ever wait for room
//   gpipe       S + (m-1) (max f_r + max b_r) + max (reduce_r + step_r)
//   sequential  m S + max (reduce_r + step_r)
//
// For equal stages and links strict 1F1B (n_r = d-r) gives P = F + 2 (d-1)/d c: what transfers cost. The
// formula for gpipe is exact too; that for flush is never too low, and within 3% for balanced stages. That
// for one gradient buffer is exact for equal stages and free links, where it says (d-1) b - f more than with
// two; for balanced ones it may be some 7% too high, and a little too low where one stage reduces longest and
// another steps longest. Replicas that predict wait for a second sum, which the formula for one gradient
// buffer does not count.
#pragma once

#include <span>

#include "planning/planner/costs/stage_timing.h"

namespace twobw::planner {

// Contention on shared links that a formula counts.
enum class Sharing {
  None,   // each has them to itself
  Least,  // transfers occupy a link one after another
  All,    // and transfers take longer beside sums and ties
};

// Seconds that a stage's step and reduction add to every microbatch of an update, under 2BW, if `slack`
// microbatches run before the update is needed. Without `slack`: as many as possible.
double update_share(const Setting& setting, int in_flight, int slack, const StageTiming& stage);
double update_share(const Setting& setting, int in_flight, const StageTiming& stage);
// The least slack (core/base/pipeline_shape.h) that hides all reductions. If none does: m, so that all
// microbatches run on predicted weights.
int slack_that_hides(const Setting& setting, std::span<const StageTiming> stages,
                     Sharing sharing = Sharing::All);
// Seconds of an update by the formulas above.
double update_seconds(const Setting& setting, std::span<const StageTiming> stages,
                      Sharing sharing = Sharing::All);

// The formula for a problem.
Sharing sharing_of(const Problem& problem);
// Whether contention or a tie is possible.
bool stages_wait_for_links(const Problem& problem);

}  // namespace twobw::planner
