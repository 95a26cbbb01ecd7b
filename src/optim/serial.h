// An update of flat weights from beginning to end, on whichever device they are: norm, clipping, the skip of
// what is not finite, optimizer. For whoever holds the whole model, such as the oracle.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>

#include "base/config.h"
#include "optim/optimizer.h"
#include "weights/layout.h"

namespace twobw::optim {

class SerialOptimizer {
 public:
  virtual ~SerialOptimizer() = default;
  // Writes version t+1 into `target` from version t in `source` and clears the gradient.
  virtual Applied apply(std::int64_t update, double learning_rate, const at::Tensor& gradient,
                        const at::Tensor& source, const at::Tensor& target) = 0;
  // Of the newest version, given what is computed with: in single precision, on its device.
  virtual at::Tensor true_weights(const at::Tensor& newest) const = 0;
};

// `initial`: flat W(0) in single precision, on the CPU; `compute`: W(0) as computed with, on its device.
std::unique_ptr<SerialOptimizer> make_serial_optimizer(const Config& config, const weights::Layout& layout,
                                                       const at::Tensor& initial, const at::Tensor& compute);
// Where that is a GPU.
std::unique_ptr<SerialOptimizer> make_serial_gpu_optimizer(const Config& config,
                                                           const weights::Layout& layout,
                                                           const at::Tensor& initial,
                                                           const at::Tensor& compute);

}  // namespace twobw::optim
