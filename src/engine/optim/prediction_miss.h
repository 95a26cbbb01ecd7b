// How far a prediction missed: |P(j) - W(j)|, beside the step that it took, |P(j) - W(j-1)|. Small where
// predictions are good; near 1 they are no better than none.
#pragma once

#include <ATen/ATen.h>

namespace twobw::optim {

// Measures one, around the step that makes W(j). The weights are rounded to the format of P first, so that
// what rounding does to both does not count.
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
