// The optimizer of one stage, over flat buffers: AdamW or SGD with momentum, with the corrections
// for the delay of 2BW. State has one copy; it is not versioned.
//
//   u        the optimizer's update, learning rate and decoupled weight decay included
//   applied  u + c (u - u1) + c2 (u1 - u2)                      optimizer.extrapolate_update
//   W(t+1)   W(t) + applied
//   compute  W(t+1) + s applied + s2 applied1                   optimizer.extrapolate_weights
//
// Both corrections are for stale gradients: update t is extrapolated for t > sync_updates, and so
// are the weights to compute with W(t), t > sync_updates. A term whose history does not exist yet
// is 0. Where compute differs from W, the optimizer keeps the true weights as a master.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <span>
#include <vector>

#include "base/config.h"
#include "optim/kernels.h"
#include "weights/layout.h"

namespace twobw::optim {

struct Update {
  std::int64_t index = 0;  // t
  double learning_rate = 0;
  double gradient_scale = 1;  // from clipping
  bool skip = false;          // the gradient is not finite
};

// What an update came to.
struct Applied {
  double gradient_norm = 0;
  bool skipped = false;  // the gradient is not finite
};

class Optimizer {
 public:
  // `initial`: flat W(0).
  Optimizer(const OptimizerConfig& config, const weights::Layout& layout, std::int64_t sync_updates,
            const at::Tensor& initial);

  // apply() with what follows from the norm of the whole gradient: clipping, and the skip of what is not
  // finite. `squared_norms`: of all parameters of the model, in its order.
  Applied step(std::int64_t update, double learning_rate, std::span<const double> squared_norms,
               const at::Tensor& gradient, const at::Tensor& source, const at::Tensor& target);

  // Writes version t+1 into `target` from version t in `source` (may be the same buffer) and clears
  // the gradient. Both are what the stage computes with.
  void apply(const Update& update, const at::Tensor& gradient, const at::Tensor& source,
             const at::Tensor& target);

  // The true weights of the newest version, given its compute buffer.
  const at::Tensor& true_weights(const at::Tensor& newest) const {
    return master_.defined() ? master_ : newest;
  }

  std::int64_t state_bytes() const;

 private:
  void apply_range(const Update& update, const weights::Parameter& parameter, const Streams& streams) const;

  OptimizerConfig config_;
  const weights::Layout& layout_;
  std::int64_t sync_updates_;
  std::int64_t applied_ = 0;  // updates not skipped
  at::Tensor master_, moment1_, moment2_, update1_, update2_, applied1_;
};

// The factor that brings a gradient of norm `norm` down to `clip`; 1 when clip is 0 or not reached.
double clip_scale(double norm, double clip);

// Sums of squares of the parameters whose gradient this stage answers for, in the layout's order: all
// but tied copies, whose gradient belongs to the primary once summed.
std::vector<double> squared_norms(const weights::Layout& layout, const at::Tensor& gradient);

}  // namespace twobw::optim
