// The optimizer of a part of the model on any device, for the oracle and for measurements, which run nothing
// else meanwhile.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <span>

#include "core/base/config.h"
#include "engine/optim/optimizer.h"
#include "engine/weights/layout.h"

namespace twobw::optim {

class SerialOptimizer {
 public:
  virtual ~SerialOptimizer() = default;
  // Squared norms of this part's gradients, in double on its device.
  virtual at::Tensor squared_norms(std::int64_t update, const at::Tensor& gradient) = 0;
  // Writes version t+1 into `target`, if defined, from version t in `source` and clears the gradient. Clips
  // by the norm, and skips if it is not finite. `norms`: of all parts, in their order.
  virtual Applied apply(double learning_rate, std::span<const at::Tensor> norms, const at::Tensor& gradient,
                        const at::Tensor& source, const at::Tensor& target) = 0;
  virtual void predict(const Prediction& prediction) = 0;
  // The true weights of the newest version, whose compute buffer is passed: in single precision, on its
  // device.
  virtual at::Tensor true_weights(const at::Tensor& newest) const = 0;
};

// `initial`: flat W(0) in single precision, on the CPU; the optimizer may keep and write it. `compute`: W(0)
// in the layers' format, on its device. `predicts`: the layers compute on predicted weights.
std::unique_ptr<SerialOptimizer> make_serial_optimizer(const Config& config, const weights::Layout& layout,
                                                       const at::Tensor& initial, const at::Tensor& compute,
                                                       bool predicts);
// The implementation for a GPU.
std::unique_ptr<SerialOptimizer> make_serial_gpu_optimizer(const Config& config,
                                                           const weights::Layout& layout,
                                                           const at::Tensor& initial,
                                                           const at::Tensor& compute, bool predicts);

}  // namespace twobw::optim
