// The optimizer of one stage, over flat buffers, and its prediction of the next update for 2BW. The state has
// one copy; it is not versioned.
//
//   P(j)     W(j-1) + u(S(j-1), (m/k) c sum of the first k gradients of batch j-1)     pipeline.predict
//
// c is the clipping factor of the last update that was made; before the first one it is 0 where gradients are
// clipped, else 1. Computed with is P; the true weights are the optimizer's, as a master.
//
// u is the optimizer's update, learning rate and decoupled weight decay included.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "core/base/config.h"
#include "core/base/parameter_groups.h"
#include "engine/optim/kernels.h"
#include "engine/optim/state.h"
#include "engine/optim/tensorwise.h"
#include "engine/weights/layout.h"

namespace twobw::optim {

struct Update {
  double learning_rate = 0;
  double gradient_scale = 1;  // from clipping alone
  bool skip = false;          // the gradient is not finite
};

// What the weights of a batch are predicted from.
struct Prediction {
  double learning_rate = 0;  // of the update to come
  double ratio = 1;          // m/k
  at::Tensor gradient;       // the sum of the first k
  at::Tensor target;         // to compute with; P is written here
};

// What an update came to.
struct Applied {
  double gradient_norm = 0;
  bool skipped = false;   // the gradient is not finite
  double loss_scale = 1;  // that the gradient had
};

class Optimizer {
 public:
  // `initial`: flat W(0) in single precision; `predicts`: predict() may be asked for. Where `compute`, the
  // format of what is computed with, is another, `initial` becomes the master, and what is computed with is
  // rounded from it, to nearest even. `shard`: the part of the weights that it updates, and keeps the state
  // of, where that is not all of them; what it is given to read and write is whole all the same.
  Optimizer(const OptimizerConfig& config, const weights::Layout& layout, const at::Tensor& initial,
            bool predicts = false, at::ScalarType compute = at::kFloat,
            std::optional<weights::Range> shard = {});

  // apply() with what follows from the norm of the whole gradient: clipping, and the skip of what is not
  // finite. `squared_norms`: of all pieces of the model's parameters, in its order.
  Applied step(double learning_rate, std::span<const double> squared_norms, const at::Tensor& gradient,
               const at::Tensor& source, const at::Tensor& target, const Prediction* next = nullptr);

  // Writes version t+1 into `target` from version t in `source` (may be the same buffer) and clears
  // the gradient. Both are what the stage computes with. Where the master is all that moves, `target` is not
  // defined. With `next` the prediction after it is made in the same pass.
  void apply(const Update& update, const at::Tensor& gradient, const at::Tensor& source,
             const at::Tensor& target, const Prediction* next = nullptr);

  // Writes the weights to compute with from the newest true weights and the state, which stays.
  void predict(const Prediction& prediction) const;

  // Before the first update: gradients are multiplied with the scale of their batch, and come so to all of
  // the above; norms and clipping are of what they are without.
  void begin_scaling(const LossScaling& start) { scaling_ = start; }
  const LossScaling& scaling() const { return scaling_; }

  // The true weights of the newest version, of the shard, given its compute buffer.
  at::Tensor true_weights(const at::Tensor& newest) const {
    return state_.master.defined() ? state_.master : shard_.of(newest);
  }

  const State& state() const { return state_; }
  Counters counters() const { return {.applied = applied_, .last_scale = last_scale_, .scaling = scaling_}; }
  // Goes on from another's counts; its buffers are written through state().
  void restore(const Counters& counters) {
    applied_ = counters.applied;
    last_scale_ = counters.last_scale;
    scaling_ = counters.scaling;
  }

 private:
  using Rule = std::variant<AdamWRule, SgdRule, LionRule>;
  Rule rule_of(const weights::Parameter& parameter, double learning_rate, float gradient_scale,
               std::int64_t applied) const;
  Rule rule_of(const weights::Parameter& parameter, const Prediction& prediction, std::int64_t applied,
               float loss_scale) const;
  Prediction of_shard(Prediction prediction) const;
  void predict_tensorwise(const Prediction& prediction) const;  // of the shard
  TensorwiseScalars scalars_of(double learning_rate, float gradient_scale, bool skip) const;
  // `rounded`: what the weights to compute with are rounded into, or undefined.
  template <typename Work>
  void for_each_range(const Streams& streams, const at::Tensor& rounded, const Work& work) const;

  OptimizerConfig config_;
  const weights::Layout& layout_;
  weights::Range shard_;
  std::vector<GroupValues> values_;  // by parameter
  TensorwiseOptimizer tensorwise_;
  std::int64_t applied_ = 0;  // updates not skipped
  float last_scale_;          // from clipping, of the last of them
  LossScaling scaling_;
  State state_;
};

// The factor that brings a gradient of norm `norm` down to `clip`; 1 when clip is 0 or not reached.
double clip_scale(double norm, double clip);

// Sums of squares of the parameters whose gradient this stage answers for, in the layout's order and piece by
// piece (engine/optim/kernels.h): all but tied copies, whose gradient belongs to the primary once summed. Of
// a shard those that it has: one after the other they are the same as of all.
std::vector<double> squared_norms(const weights::Layout& layout, const at::Tensor& gradient);
std::vector<double> squared_norms(const weights::Layout& layout, const at::Tensor& gradient,
                                  const weights::Range& shard);

// The learning rate of update t = 0..updates-1: linear warm-up to optimizer.lr, then the decay to
// optimizer.min_lr times it.
double learning_rate(const OptimizerConfig& config, std::int64_t updates, std::int64_t t);

// Error of a prediction: |P(j) - W(j)| beside the step that it replaced, |P(j) - W(j-1)|. A ratio near 1 is
// no better than no prediction. Measured around the step that makes W(j), after rounding the weights to the
// format of P, so that rounding does not count.
class PredictionMiss {
 public:
  // `predicted`: P(j), which the step must leave alone; `weights`: W(j-1), in single precision.
  PredictionMiss(const at::Tensor& predicted, const at::Tensor& weights);
  // `weights`: W(j). On a GPU what it finds is there once the queue has come to it.
  void finish(const at::Tensor& weights);

  double squared_step() const { return found_.const_data_ptr<double>()[0]; }
  double squared_miss() const { return found_.const_data_ptr<double>()[1]; }

 private:
  at::Tensor predicted_, step_;
  at::Tensor found_;  // on the CPU
};

}  // namespace twobw::optim
