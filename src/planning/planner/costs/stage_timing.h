// What one stage of a pipeline takes, in seconds: computation, step, sums over replicas, transfers.
//
// Replicas that share the optimizer's state make a part of the step each, and half of an all-reduce: the sum
// stays where it is needed, but for what is tied. What is computed with then goes from each to all, as part
// of the step: with prediction that is P alone, or the true weights too where later microbatches of a batch
// run on them, which a search does not count before it has a plan.
#pragma once

#include "planning/planner/costs/layer_sums.h"
#include "planning/planner/costs/plan.h"
#include "planning/planner/costs/transfers.h"

namespace twobw::planner {

// What all stages of a plan share.
struct Setting {
  PipelineShape shape;       // the stages apart, which are what a search looks for
  int extra_a_boundary = 0;  // extra microbatches in flight besides, for every boundary between two stages

  bool one_gradient() const {
    return shape.schedule == schedule::Kind::TwoBW && !shape.double_buffer_gradients;
  }

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

// One stage's part in the formulas of time_model.h, in seconds.
struct StageTiming {
  double forward = 0, backward = 0;  // backward includes recomputation
  double step = 0;
  double predict = 0;   // of the step: the prediction
  double reduce = 0;    // the all-reduce over replicas, by itself
  double sum = 0;       // of it, with the node's shared end of the network busy
  double tie = 0;       // the exchange of a tied gradient, of the foremost stage that has a part in it
  double tie_busy = 0;  // of the link, at either end of the exchange
  double send = 0;      // one transfer to the next stage
  double busy = 0;      // of the link, for one such transfer
  // Whether transfers, and the exchange, leave the node; whether they pass a link that is shared.
  bool leaves = false, tie_leaves = false;
  bool shares = false, tie_shares = false;
  int node = 0;

  double compute() const { return forward + backward; }
};

// Of a parameter, an update, on one replica: the step, and the prediction where there is one. Where both are
// made in one pass they take less.
double step_seconds(const CostTable& costs, const Setting& setting);

// Where replicas share the optimizer's state, else nothing: one version of a stage's weights from each to
// all.
double gather_seconds(const Problem& problem, const Setting& setting, const Site& site, double parameters);

// A prediction, and the gather that goes with it.
double predict_seconds(const Problem& problem, const Setting& setting, const Site& site, double parameters);

// Computation, step and the all-reduce over replicas; the neighbours are not known here.
StageTiming timing_of(const Problem& problem, const Setting& setting, const Site& site, const StageLoad& load,
                      bool recompute);

// Seconds of the sum over replicas, if an all-reduce of as many elements would take so long.
double reduce_seconds(const Setting& setting, double all_reduce);

// The exchange of a tied weight's gradient between two stages counts where the foremost of them
// stands: that one ends its batch last, so nobody has more need of haste.
Transfer tie_exchange(const Problem& problem, const Setting& setting, const LinkSpec& link, int at_once,
                      double tied);

}  // namespace twobw::planner
