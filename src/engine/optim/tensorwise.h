// Optimizers whose update needs a whole parameter: LAMB its norm, Muon its directions. Tensor operations for
// CPU and GPU; on a GPU scalars stay on the device.
//
//   LAMB  r = Adam's direction + decay w;  u = -lr |w|/|r| r              (You et al. 2020)
//   Muon  d = g + mu m, m the momentum;  u = -lr (decay w + 0.2 sqrt(max(rows, columns)) O(d))
//         O by five steps of Newton and Schulz (Jordan et al. 2024); the factor keeps AdamW's learning rate
//         (Liu et al. 2025, "Muon is scalable for LLM training")
//
// Operations on lists of tensors take all parameters at once, and matrices of one shape share a batched
// product: on a GPU separate launches would take longer than the arithmetic.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "core/base/config.h"
#include "core/base/parameter_groups.h"
#include "engine/weights/layout.h"

namespace twobw::optim {

// Flat buffers; undefined ones are not used.
struct TensorwiseBuffers {
  at::Tensor source;            // W(t), single precision
  at::Tensor target;            // W(t+1), possibly the same buffer; not for a prediction
  at::Tensor gradient;          // cleared by an update
  at::Tensor moment1, moment2;  // state
  at::Tensor compute;           // the layers' weights: W(t+1), or the prediction
};

// Scalars, on the device of the weights.
struct TensorwiseScalars {
  double learning_rate = 0;
  at::Tensor gradient_scale;  // float
  at::Tensor skip;            // bool
  at::Tensor applied;         // updates made before, double
};

std::vector<GroupValues> values_by_parameter(const OptimizerConfig& config, const weights::Layout& layout);

// Whether the parameter is updated as a whole, and not element by element.
bool is_tensorwise(const OptimizerConfig& config, const weights::Parameter& parameter);

class TensorwiseOptimizer {
 public:
  // `format`: of Muon's products. For the parameters in a shard, whose buffers begin with its first weight.
  TensorwiseOptimizer(const OptimizerConfig& config, const weights::Layout& layout, at::ScalarType format,
                      const weights::Range& shard);

  void apply(const TensorwiseBuffers& buffers, const TensorwiseScalars& scalars) const;
  void predict(const TensorwiseBuffers& buffers, const TensorwiseScalars& scalars) const;

 private:
  using Tensors = std::vector<at::Tensor>;
  // By parameter.
  struct TensorUpdates {
    Tensors updates;
    Tensors moment1, moment2;
  };
  struct Member {
    const weights::Parameter* parameter;
    GroupValues values;
    std::int64_t offset;  // into the buffers
  };
  static at::Tensor view(const at::Tensor& flat, const Member& member);
  Tensors views(const at::Tensor& flat) const;
  TensorUpdates compute_updates(const TensorwiseBuffers& buffers, const TensorwiseScalars& scalars) const;
  TensorUpdates muon(const TensorwiseBuffers& buffers, const Tensors& gradients, double learning_rate) const;
  TensorUpdates lamb(const TensorwiseBuffers& buffers, const Tensors& gradients,
                     const TensorwiseScalars& scalars) const;

  OptimizerConfig config_;
  std::vector<Member> members_;  // in the layout's order, aliases left out
  at::ScalarType format_;
};

// Approximately the nearest matrices with orthogonal rows or columns: singular values are around 1.
std::vector<at::Tensor> orthogonalized(const std::vector<at::Tensor>& matrices, at::ScalarType format);

}  // namespace twobw::optim
