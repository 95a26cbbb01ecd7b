// Seconds of one stage of a pipeline: computation, step, sums over replicas, transfers.
//
// With sharded optimizer state every replica steps its shard: a reduce-scatter takes half of an all-reduce,
// and an all-gather of the weights follows as part of the step. With prediction it gathers P, and the true
// weights too if later microbatches of a batch run on them; the search counts those only for complete plans.
// Tied weights are summed on all replicas.
#pragma once

#include "planning/planner/costs/layer_sums.h"
#include "planning/planner/costs/plan.h"
#include "planning/planner/costs/transfers.h"

namespace twobw::planner {

// Settings that all stages of a plan share.
struct Setting {
  PipelineShape shape;       // without the stages, which the search looks for
  int extra_a_boundary = 0;  // additional microbatches in flight, for every boundary between two stages

  bool one_gradient() const {
    return shape.schedule == schedule::Kind::TwoBW && !shape.double_buffer_gradients;
  }

  friend bool operator==(const Setting&, const Setting&) = default;
};
// The schedule of a pipeline of `stages` stages.
schedule::Spec spec_of(const Setting& setting, int stages);

// Whether all stages wait for each other once an update: for a round trip under flush, for the way back under
// 2bw with one gradient buffer.
bool stalls(const Setting& setting);

// Training state a parameter under this schedule.
const StateBytes& state_of(const Problem& problem, schedule::Kind schedule);

// The costs of one kind of device at one microbatch size; null if unknown.
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

// Seconds per parameter of an update on one replica: the step and the prediction. In one pass they take less.
double step_seconds(const CostTable& costs, const Setting& setting);

// All-gather of one version of a stage's weights; 0 without sharded state.
double gather_seconds(const Problem& problem, const Setting& setting, const Site& site, double parameters);

// A prediction, and the gather that goes with it.
double predict_seconds(const Problem& problem, const Setting& setting, const Site& site, double parameters);

// Computation, step and the all-reduce over replicas. Leaves out the transfers, which depend on the
// neighbors.
StageTiming timing_of(const Problem& problem, const Setting& setting, const Site& site, const StageLoad& load,
                      bool recompute);

// Seconds of the sum over replicas, given those of an all-reduce.
double reduce_seconds(const Setting& setting, double all_reduce);

// Exchange of a tied weight's gradient between two stages. It counts at the first of them, which ends its
// batch last.
Transfer tie_exchange(const Problem& problem, const Setting& setting, const LinkSpec& link, int at_once,
                      double tied);

}  // namespace twobw::planner
