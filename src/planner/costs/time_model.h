// How long an update takes, in closed form. evaluate() is the one definition of a plan's forecast: the
// search only looks for the plan that it likes best.
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
// network, where that is shared: P is at least what all of them send a microbatch, and an update at least
// what they send in all, their sums and a tie with it (planner/costs/shared_links.h). An update of m
// microbatches takes
//
//   2bw         m max(P, F_r + (step_r + max(0, reduce_r - (m-n_r+1) F_r)) / m)
//               (m-n_r+1 microbatches run between the end of a batch's gradients and the need for them;
//               replicas that predict sum their gradients a second time, while one microbatch runs; reduce_r
//               has what the sums of other stages of the node leave of theirs before it) and at least what
//               the exchange of a tie makes of it
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
//
// Replicas that share the optimizer's state make a part of the step each, and half of an all-reduce: the sum
// stays where it is needed, but for what is tied. What is computed with then goes from each to all, as part
// of the step: with prediction that is P alone, or the true weights too where later microbatches of a batch
// run on them, which a search does not count before it has a plan.
#pragma once

#include <span>
#include <vector>

#include "planner/costs/layer_sums.h"
#include "planner/costs/plan.h"
#include "planner/costs/transfers.h"

namespace twobw::planner {

// What all stages of a plan share.
struct Setting {
  PipelineShape shape;       // the stages apart, which are what a search looks for
  int extra_a_boundary = 0;  // extra microbatches in flight besides, for every boundary between two stages

  bool one_gradient() const { return shape.schedule == schedule::Kind::TwoBW && !shape.second_gradient; }

  friend bool operator==(const Setting&, const Setting&) = default;
};
// With so many stages.
schedule::Spec spec_of(const Setting& setting, int stages);

// Whether all stages wait for each other once an update: for the way there and back under flush, for the way
// back under 2bw with one gradient buffer.
bool stalls(const Setting& setting);

// Training state a parameter under this schedule.
const StateBytes& state_of(const Problem& problem, schedule::Kind schedule);

// The costs of one kind of device at one microbatch size; null where there are none.
const CostColumn* column_of(const Problem& problem, int kind, int microbatch);

// One stage's part in the formulas above, in seconds.
struct StageTiming {
  double forward = 0, backward = 0;  // backward includes recomputation
  double step = 0;
  double reduce = 0;    // the all-reduce over replicas, by itself
  double sum = 0;       // of it, with the node's shared end of the network busy
  double tie = 0;       // the exchange of a tied gradient, of the foremost stage that has a part in it
  double tie_busy = 0;  // of a shared link, at either end of the exchange
  double send = 0;      // one transfer to the next stage
  double busy = 0;      // of the link, for one such transfer
  // Whether transfers, and the exchange, leave the node; whether transfers pass a link that is shared.
  bool leaves = false, tie_leaves = false;
  bool shares = false;
  int node = 0;

  double compute() const { return forward + backward; }
};

// Seconds that stage r's step and reduction add to every microbatch of an update, under 2BW, if `slack`
// microbatches run before the update is needed: as many as there can be, where it is not said.
double update_share(const Setting& setting, int in_flight, int slack, const StageTiming& stage);
double update_share(const Setting& setting, int in_flight, const StageTiming& stage);
// The least slack (base/pipeline_shape.h) that hides all reductions; where none does one that is never used,
// so that all microbatches run on predicted weights.
int slack_that_hides(const Setting& setting, std::span<const StageTiming> stages, bool links = true);
// The formulas; `links`: with what stages do to each other over links that they share.
double update_seconds(const Setting& setting, std::span<const StageTiming> stages, bool links = true);

// Whether `links` makes any difference.
bool stages_wait_for_links(const Problem& problem);

// Of a parameter, an update, on one replica: the step, and the prediction where there is one. Where both are
// made in one pass they take less.
double step_seconds(const CostTable& costs, const Setting& setting);

// Where replicas share the optimizer's state, else nothing: one version of a stage's weights from each to
// all.
double gather_seconds(const Problem& problem, const Setting& setting, const Site& site, double parameters);

// Computation, step and the all-reduce over replicas; the neighbours are not known here.
StageTiming timing_of(const Problem& problem, const Setting& setting, const Site& site, const StageLoad& load,
                      bool recompute);

// Seconds of the sum over replicas, if an all-reduce of as many elements would take so long.
double reduce_seconds(const Setting& setting, double all_reduce);

// The exchange of a tied weight's gradient between two stages counts where the foremost of them
// stands: that one ends its batch last, so nobody has more need of haste.
Transfer tie_exchange(const Problem& problem, const Setting& setting, const LinkSpec& link, int at_once,
                      double tied);

// Bytes beyond the capacity; as good as none is none.
inline double excess(double bytes, double capacity) {
  const double over = bytes - capacity;
  return over > 0 && over < 1e-9 * capacity ? 0 : over;
}

struct Estimate {
  Plan plan;             // with its forecast
  int tightest = 0;      // the stage that exceeds its memory most, or has least to spare
  double over = 0;       // by so many bytes beyond what the margin leaves; at most 0: the plan fits
  double footprint = 0;  // bytes of all devices together

  bool fits() const { return over <= 0; }
};

// Any placement will do, also such as the search never makes. The plan must be whole: every layer in one
// stage, `replicas` devices a stage, all of its kind.
Estimate evaluate(const Problem& problem, Plan plan);
// The same where the sums are known.
Estimate evaluate(const Problem& problem, Plan plan, const LayerSumsByKind& sums);

}  // namespace twobw::planner
