// Optimizers whose update of a parameter needs all of it, and not an element at a time: LAMB its length, Muon
// its directions. In tensor operations, for CPU and GPU alike; what only a GPU knows stays there.
//
//   LAMB  r = Adam's direction + decay w;  u = -lr |w|/|r| r              (You et al. 2020)
//   Muon  d = g + mu m, m the momentum;  u = -lr (decay w + 0.2 sqrt(max(rows, columns)) O(d))
//         O by five steps of Newton and Schulz (Jordan et al. 2024); the factor keeps AdamW's learning rate
//         (Liu et al. 2025, "Muon is scalable for LLM training")
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "base/config.h"
#include "base/parameter_groups.h"
#include "weights/layout.h"

namespace twobw::optim {

// Flat, as the optimizer has them. Not defined: not wanted.
struct WholeBuffers {
  at::Tensor source;            // W(t), single precision
  at::Tensor target;            // W(t+1), may be the same; not for a prediction
  at::Tensor gradient;          // cleared by an update
  at::Tensor moment1, moment2;  // state
  at::Tensor compute;           // to compute with: W(t+1), or what is predicted
};

// Single numbers, on the device of the weights.
struct WholeScalars {
  double learning_rate = 0;
  at::Tensor gradient_scale;  // float
  at::Tensor skip;            // bool
  at::Tensor applied;         // updates made before, double
};

std::vector<GroupValues> values_by_parameter(const OptimizerConfig& config, const weights::Layout& layout);

class WholeParameters {
 public:
  // `format`: of the products that Muon makes.
  WholeParameters(const OptimizerConfig& config, const weights::Layout& layout, at::ScalarType format)
      : config_(config), layout_(layout), values_(values_by_parameter(config, layout)), format_(format) {}

  // Whether the parameter is one of them; the others' elements are updated one by one.
  bool has(const weights::Parameter& parameter) const;

  void apply(const WholeBuffers& buffers, const WholeScalars& scalars) const;
  void predict(const WholeBuffers& buffers, const WholeScalars& scalars) const;

 private:
  struct Moved {
    at::Tensor update;  // for a learning rate of 1
    at::Tensor moment1, moment2;
  };
  const GroupValues& values_of(const weights::Parameter& parameter) const {
    return values_[&parameter - layout_.parameters().data()];
  }
  Moved move(const weights::Parameter& parameter, const WholeBuffers& buffers,
             const WholeScalars& scalars) const;
  Moved muon(const weights::Parameter& parameter, const at::Tensor& w, const at::Tensor& momentum,
             const at::Tensor& gradient) const;
  Moved lamb(const weights::Parameter& parameter, const at::Tensor& w, const at::Tensor& m,
             const at::Tensor& v, const at::Tensor& gradient, const WholeScalars& scalars) const;

  OptimizerConfig config_;
  const weights::Layout& layout_;
  std::vector<GroupValues> values_;  // by parameter
  at::ScalarType format_;
};

// The nearest matrix with orthogonal rows or columns, roughly: its singular values come to lie around 1.
at::Tensor orthogonalized(const at::Tensor& matrix, at::ScalarType format);

}  // namespace twobw::optim
