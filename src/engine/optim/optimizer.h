// The optimizer of one stage over flat buffers, and its prediction of the next update for 2BW. The state has
// one copy and no versions.
//
//   P(j) = W(j-1) + u(S(j-1), (m/k) c sum of the first k gradients of batch j-1)     pipeline.predict
//
// u: the optimizer's update, with learning rate and decoupled weight decay.
// c: the clipping factor of the last update; before the first one 0 with clipping, else 1.
// Layers compute on P; the optimizer keeps the true weights as its master.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
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

// The inputs of a prediction.
struct Prediction {
  double learning_rate = 0;  // of the predicted update
  double ratio = 1;          // m/k
  at::Tensor gradient;       // sum of the first k
  at::Tensor target;         // buffer for P

  // The part of a shard.
  Prediction of(const weights::Range& shard) const {
    Prediction part = *this;
    part.gradient = shard.of(gradient);
    part.target = shard.of(target);
    return part;
  }
};

// The result of an update.
struct Applied {
  double gradient_norm = 0;
  bool skipped = false;   // the gradient is not finite
  double loss_scale = 1;  // of the gradient
};

using Rule = std::variant<AdamWRule, SgdRule, LionRule>;
// The rule with the values of the configuration; those of a parameter and of an update are 0.
Rule rule_for(const OptimizerConfig& config, double learning_rate);

// On a CPU (below) or on a GPU (gpu_optimizer.h).
class StageOptimizer {
 public:
  virtual ~StageOptimizer() = default;

  // Before the first update: gradients include the loss scale of their batch from now on; norms and clipping
  // do not.
  virtual void begin_scaling(const LossScaling& start) = 0;
  // Squared norms of the shard's gradients, in double on its device.
  virtual at::Tensor squared_norms(std::int64_t update, const at::Tensor& gradient) = 0;
  // Writes version t+1 into `target`, if defined, from version t in `source` and clears the gradient. Clips
  // by the norm, and skips if it is not finite. `norms`: of all stages, in their order. Blocks.
  virtual Applied apply(double learning_rate, std::span<const at::Tensor> norms, const at::Tensor& gradient,
                        const at::Tensor& source, const at::Tensor& target) = 0;
  // Writes predicted weights from the newest true weights; the state does not change.
  virtual void predict(const Prediction& prediction) = 0;
  // Resumes from saved counters; the caller writes the buffers through state().
  virtual void restore(const Counters& counters) = 0;

  // The true weights of the newest version, in single precision, in the shard; `newest`: its buffer in the
  // layers' format.
  at::Tensor true_weights(const at::Tensor& newest) const {
    return state_.master.defined() ? state_.master : shard_.of(newest);
  }
  const State& state() const { return state_; }

 protected:
  // `shard`: the part of the weights to update and to keep state of; the buffers passed to the functions are
  // whole. `format`: of tensorwise products.
  StageOptimizer(const OptimizerConfig& config, const weights::Layout& layout,
                 std::optional<weights::Range> shard, at::ScalarType format);
  // Buffers of an update from `source` to `target`; `compute`: the layers' weights beside a master.
  TensorwiseBuffers tensorwise_buffers(const at::Tensor& gradient, const at::Tensor& source,
                                       const at::Tensor& target, const at::Tensor& compute) const;
  // Clears the gradients of other shards, and those of aliases, already summed into their partners'.
  void clear_other_gradients(const at::Tensor& gradients) const;

  OptimizerConfig config_;
  const weights::Layout& layout_;
  weights::Range shard_;
  TensorwiseOptimizer tensorwise_;
  State state_;
};

class Optimizer final : public StageOptimizer {
 public:
  // `initial`: flat W(0) in single precision. `predicts`: predict() may be called. `compute`: number format
  // of the layers; unless single precision, `initial` becomes the master and the layers' weights are rounded
  // from it, to nearest even.
  Optimizer(const OptimizerConfig& config, const weights::Layout& layout, const at::Tensor& initial,
            bool predicts = false, at::ScalarType compute = at::kFloat,
            std::optional<weights::Range> shard = {});

  // apply() with clipping by the norm of the whole gradient, skipped if that is not finite. `squared_norms`:
  // of all pieces of the model's parameters, in its order.
  Applied step(double learning_rate, std::span<const double> squared_norms, const at::Tensor& gradient,
               const at::Tensor& source, const at::Tensor& target, const Prediction* next = nullptr);

  // Writes version t+1 into `target` from version t in `source`, possibly the same buffer, and clears the
  // gradient. Both are in the layers' format; `target` is undefined if only the master changes. `next`: also
  // makes the following prediction, in the same pass.
  void apply(const Update& update, const at::Tensor& gradient, const at::Tensor& source,
             const at::Tensor& target, const Prediction* next = nullptr);

  at::Tensor squared_norms(std::int64_t update, const at::Tensor& gradient) override;
  Applied apply(double learning_rate, std::span<const at::Tensor> norms, const at::Tensor& gradient,
                const at::Tensor& source, const at::Tensor& target) override;
  void predict(const Prediction& prediction) override;
  void begin_scaling(const LossScaling& start) override { scaling_ = start; }
  const LossScaling& scaling() const { return scaling_; }
  Counters counters() const { return {.applied = applied_, .last_scale = last_scale_, .scaling = scaling_}; }
  void restore(const Counters& counters) override {
    applied_ = counters.applied;
    last_scale_ = counters.last_scale;
    scaling_ = counters.scaling;
  }

 private:
  Rule rule_of(const weights::Parameter& parameter, double learning_rate, float gradient_scale,
               std::int64_t applied) const;
  Rule rule_of(const weights::Parameter& parameter, const Prediction& prediction, std::int64_t applied,
               float loss_scale) const;
  void predict_tensorwise(const Prediction& prediction) const;  // of the shard
  TensorwiseScalars scalars_of(double learning_rate, float gradient_scale, bool skip) const;
  // `rounded`: 16-bit buffer for the layers' weights, or undefined.
  template <typename Work>
  void for_each_range(const Streams& streams, const at::Tensor& rounded, const Work& work) const;

  std::vector<GroupValues> values_;  // by parameter
  std::int64_t applied_ = 0;         // updates not skipped
  float last_scale_;                 // from clipping, of the last of them
  LossScaling scaling_;
};

// The optimizer of a part of the model on any device, for the oracle and for measurements. `initial`: flat
// W(0) in single precision, on the CPU; the optimizer may keep and write it. `compute`: W(0) in the layers'
// format, on its device. `predicts`: the layers compute on predicted weights.
std::unique_ptr<StageOptimizer> make_optimizer(const Config& config, const weights::Layout& layout,
                                               const at::Tensor& initial, const at::Tensor& compute,
                                               bool predicts);
// The implementation for a GPU.
std::unique_ptr<StageOptimizer> make_gpu_optimizer(const OptimizerConfig& config,
                                                   const weights::Layout& layout, const at::Tensor& initial,
                                                   const at::Tensor& compute, bool predicts);

// Factor that scales a gradient of norm `norm` down to `clip`; 1 if clip is 0 or not exceeded.
double clip_scale(double norm, double clip);

// Sums of squares of this stage's gradients, piece by piece (engine/optim/kernels.h) in the layout's order,
// without tied copies, whose gradients are summed into their primary. Those of all shards, one after the
// other, are those of the whole.
std::vector<double> squared_norms(const weights::Layout& layout, const at::Tensor& gradient,
                                  const weights::Range& shard);

// The learning rate of update t = 0..updates-1: linear warm-up to optimizer.lr, then decay to
// optimizer.min_lr times it.
double learning_rate(const OptimizerConfig& config, std::int64_t updates, std::int64_t t);

// Error of a prediction: |P(j) - W(j)| beside the step that it replaced, |P(j) - W(j-1)|. A ratio near 1 is
// no better than no prediction. Measured around the step that makes W(j), after rounding the weights to the
// format of P, so that rounding does not count.
class PredictionMiss {
 public:
  // `predicted`: P(j), which the step must not write; `weights`: W(j-1), in single precision.
  PredictionMiss(const at::Tensor& predicted, const at::Tensor& weights);
  // `weights`: W(j). On a GPU the result is ready when the queue has reached it.
  void finish(const at::Tensor& weights);

  double squared_step() const { return found_.const_data_ptr<double>()[0]; }
  double squared_miss() const { return found_.const_data_ptr<double>()[1]; }

 private:
  at::Tensor predicted_, step_;
  at::Tensor found_;  // on the CPU
};

}  // namespace twobw::optim
