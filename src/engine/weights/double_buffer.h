// The flat buffers of one stage: its weight versions and its gradients. Used by the stage's thread.
//
// W(t) is in buffer t % kept. With kept = 2 that is the double buffer: W(t+1) is written out of place into
// the buffer of the retired W(t-1) and becomes the newest without a copy. With kept = 1 the update is in
// place. With predictions t is a generation (core/schedule/spec.h), which counts them too.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/config.h"
#include "engine/weights/layout.h"

namespace twobw::weights {

class Versions {
 public:
  // W(0): every parameter from its own random stream, keyed by seed and name, so that it does not depend on
  // the split. `options`: number format and device. Unless these are floats on the CPU, buffers are zero and
  // the stage fills them.
  Versions(const Layout& layout, int kept, std::uint64_t seed, const at::TensorOptions& options = at::kFloat);
  // W(0) by the configuration's seed, or from model.from.
  Versions(const Layout& layout, int kept, const Config& config,
           const at::TensorOptions& options = at::kFloat);

  std::int64_t newest() const { return newest_; }

  // Parameters of W(version), leaves that require a gradient, in the layout's order. A forward acquires the
  // version, its backward releases it.
  std::span<const at::Tensor> acquire(std::int64_t version);
  void release(std::int64_t version);
  // Valid until the next write.
  std::span<const at::Tensor> parameters(std::int64_t version) const;
  const at::Tensor& flat(std::int64_t version) const;

  // The flat buffer for W(newest+1). Asserts that no microbatch in flight uses its old version. The write may
  // read W(newest); publish() makes it the newest.
  at::Tensor begin_write();
  void publish();

  // Resumes, before the first use: `newest` was written last; versions that are read before they are written
  // come from restore().
  void begin_after(std::int64_t newest);
  void restore(std::int64_t version, const at::Tensor& content);

  int kept() const { return static_cast<int>(buffers_.size()); }
  int peak_live() const { return peak_live_; }

 private:
  Versions(const Layout& layout, int kept, const at::TensorOptions& options);

  struct Buffer {
    at::Tensor flat;
    std::vector<at::Tensor> parameters;
    std::int64_t version = -1;
    int users = 0;
  };
  Buffer& holding(std::int64_t version);
  const Buffer& holding(std::int64_t version) const;
  void count_live();

  std::vector<Buffer> buffers_;
  std::int64_t newest_ = 0;
  int peak_live_ = 1;
};

// Views of `flat` as the layout's parameters, each a leaf with its own version counter.
std::vector<at::Tensor> parameter_views(const Layout& layout, const at::Tensor& flat);

// Initialize flat weights, in single precision on the CPU, as Versions does. From model.from only the
// layout's own tensors are read.
void initialize(const Layout& layout, const at::Tensor& flat, std::uint64_t seed);
void initialize(const Layout& layout, const at::Tensor& flat, const Config& config);

// Batch j accumulates in buffer j % count. Two buffers let batch j+1 accumulate while batch j's gradient
// waits for other stages.
class Gradients {
 public:
  // Single precision, on the device of `options`.
  Gradients(const Layout& layout, int count, const at::TensorOptions& options = {});

  // Backward passes on these parameters accumulate into the batch's buffer from now on.
  void attach(std::int64_t batch, std::span<const at::Tensor> parameters) const;

  const at::Tensor& flat(std::int64_t batch) const { return flats_[batch % flats_.size()]; }
  // One parameter's gradient, in its shape.
  const at::Tensor& of(std::int64_t batch, int parameter) const {
    return views_[batch % flats_.size()][parameter];
  }
  int count() const { return static_cast<int>(flats_.size()); }

 private:
  std::vector<at::Tensor> flats_;
  std::vector<std::vector<at::Tensor>> views_;
};

}  // namespace twobw::weights
