// The optimizer of a part of the model on whichever device it is, where nothing runs beside it: for the
// oracle, and for measurements.
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
  // Of the parameters that this part answers for, in double, on its device.
  virtual at::Tensor squared_norms(std::int64_t update, const at::Tensor& gradient) = 0;
  // Writes version t+1 into `target`, if there is one, from version t in `source` and clears the gradient:
  // norm, clipping, the skip of what is not finite. `norms`: of all parts, in their order.
  virtual Applied apply(double learning_rate, std::span<const at::Tensor> norms, const at::Tensor& gradient,
                        const at::Tensor& source, const at::Tensor& target) = 0;
  virtual void predict(const Prediction& prediction) = 0;
  // Of the newest version, given what is computed with: in single precision, on its device.
  virtual at::Tensor true_weights(const at::Tensor& newest) const = 0;
};

// `initial`: flat W(0) in single precision, on the CPU; `compute`: W(0) as computed with, on its device. The
// optimizer may keep `initial` and write it.
// `predicts`: the true weights are not computed with.
std::unique_ptr<SerialOptimizer> make_serial_optimizer(const Config& config, const weights::Layout& layout,
                                                       const at::Tensor& initial, const at::Tensor& compute,
                                                       bool predicts);
// Where that is a GPU.
std::unique_ptr<SerialOptimizer> make_serial_gpu_optimizer(const Config& config,
                                                           const weights::Layout& layout,
                                                           const at::Tensor& initial,
                                                           const at::Tensor& compute, bool predicts);

}  // namespace twobw::optim
