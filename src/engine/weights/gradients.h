// The flat gradient buffers of one stage. Batch j accumulates in buffer j % count: two of them where
// batch j's gradient waits for other stages while batch j+1 already accumulates.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <span>
#include <vector>

#include "engine/weights/layout.h"

namespace twobw::weights {

class Gradients {
 public:
  // Single precision, on the device of `options`.
  Gradients(const Layout& layout, int count, const at::TensorOptions& options = {});

  // From now on backward passes on these parameters accumulate into batch j's buffer.
  void attach(std::int64_t batch, std::span<const at::Tensor> parameters) const;

  const at::Tensor& flat(std::int64_t batch) const { return flats_[batch % flats_.size()]; }
  // One parameter's part of it, in its shape.
  const at::Tensor& of(std::int64_t batch, int parameter) const {
    return views_[batch % flats_.size()][parameter];
  }
  int count() const { return static_cast<int>(flats_.size()); }

 private:
  std::vector<at::Tensor> flats_;
  std::vector<std::vector<at::Tensor>> views_;
};

}  // namespace twobw::weights
