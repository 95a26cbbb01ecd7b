// The weight versions of one stage: at most `kept` flat buffers, never one more.
//
// W(t) lives in buffer t % kept. With kept = 2 that is the double buffer: W(t+1) is written into the
// buffer of the retired W(t-1), out of place from W(t), and becomes the newest by its number alone;
// nothing is copied. With kept = 1 the update is in place. Where predictions are computed with, they count
// too: then t is a generation (core/schedule/spec.h). Used by the stage's thread only.
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
  // W(0): every parameter from a random stream of its own, keyed by seed and name, so that initial
  // weights do not depend on the split.
  // In the number format and on the device of `options`; other than as floats on the CPU they are zero, for
  // the stage to fill.
  Versions(const Layout& layout, int kept, std::uint64_t seed, const at::TensorOptions& options = at::kFloat);
  // W(0) as the configuration says: by its seed, or from its model.from.
  Versions(const Layout& layout, int kept, const Config& config,
           const at::TensorOptions& options = at::kFloat);

  std::int64_t newest() const { return newest_; }

  // The parameters of W(version), leaves that require a gradient, in the layout's order. A forward
  // holds the version until its backward is done.
  std::span<const at::Tensor> acquire(std::int64_t version);
  void release(std::int64_t version);
  // For a look that ends before the next write.
  std::span<const at::Tensor> parameters(std::int64_t version) const;
  const at::Tensor& flat(std::int64_t version) const;

  // The flat buffer for W(newest+1), whose former content is retired: asserts that no microbatch in
  // flight still needs it. The write may read W(newest). publish() makes it the newest.
  at::Tensor begin_write();
  void publish();

  // Of a resumed run, before the first use: `newest` is the number of what was written last, W(0) is gone,
  // and what is read before it is written comes from `restore`.
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

// Views of `flat` shaped as the layout's parameters, each a leaf with a version counter of its own.
std::vector<at::Tensor> parameter_views(const Layout& layout, const at::Tensor& flat);

// Fill flat weights, single precision on the CPU, as Versions does for W(0). From model.from only the
// layout's own tensors are read.
void initialize(const Layout& layout, const at::Tensor& flat, std::uint64_t seed);
void initialize(const Layout& layout, const at::Tensor& flat, const Config& config);

// The flat gradient buffers of one stage. Batch j accumulates in buffer j % count: two of them where
// batch j's gradient waits for other stages while batch j+1 already accumulates.

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
