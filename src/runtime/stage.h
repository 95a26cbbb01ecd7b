// The arithmetic of one stage: its layers, weight versions, gradients and optimizer. Knows nothing of
// threads, links or order; the worker tells it what to do. Used by one thread.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/edge.h>

#include <cstdint>
#include <vector>

#include "base/config.h"
#include "data/tokens.h"
#include "models/layer.h"
#include "optim/optimizer.h"
#include "weights/gradients.h"
#include "weights/layout.h"
#include "weights/versions.h"

namespace twobw::runtime {

using models::Tensors;

struct StageSetup {
  int replica = 0;
  int first_layer = 0, last_layer = 0;  // [first, last) of the model
  bool recompute = false;
  int slots = 1;     // microbatches in flight
  int versions = 1;  // weight versions kept
  int gradient_buffers = 1;
};

class Stage {
 public:
  Stage(const Config& config, const models::LayerList& model, const data::Source& training,
        const data::Source& validation, const StageSetup& setup);

  // No inputs on the first stage. Gives what goes to the next stage, or the loss.
  Tensors forward(std::int64_t microbatch, int slot, std::int64_t version, const Tensors& inputs);
  // No gradients on the last stage. Gives what goes to the previous stage, if anything.
  Tensors backward(std::int64_t microbatch, int slot, std::int64_t version, const Tensors& gradients);
  // Forward of one validation microbatch on the newest true weights.
  Tensors evaluate(std::int64_t index, const Tensors& inputs);

  // Flat, of batch j: where the backwards accumulate, and what the step applies.
  const at::Tensor& gradient(std::int64_t batch) const { return gradients_.flat(batch); }
  // Adds up the gradients of ties within the stage.
  void sum_local_ties(std::int64_t batch);
  // This stage's part of batch j's gradient of a tie that spans stages, and the other end's, to be added.
  bool holds_tie_primary() const;  // of such a tie
  bool holds_tie_copy() const;
  at::Tensor tied_gradient(std::int64_t batch) const;
  void add_tied_gradient(std::int64_t batch, const at::Tensor& other);
  // Offset and count of what ties change in a flat gradient where they are summed.
  std::vector<std::pair<std::int64_t, std::int64_t>> tied_ranges() const;

  std::vector<double> squared_norms(std::int64_t batch) const;
  void step(const optim::Update& update);

  // Flat true weights of the newest version, and where the parameters lie in them.
  const at::Tensor& newest_weights() const;
  const weights::Layout& layout() const { return layout_; }
  std::vector<std::uint64_t> layer_checksums() const;
  int peak_versions() const { return versions_.peak_live(); }

 private:
  struct InFlight {
    models::Pass pass;
    Tensors inputs;                    // leaves that require a gradient
    torch::autograd::edge_list roots;  // where the backward starts; none under recomputation
  };
  Tensors run_layers(std::span<const at::Tensor> parameters, Tensors x, models::Pass& pass) const;
  int spanning_tie() const;

  const Config& config_;
  const models::LayerList& model_;
  const data::Source& training_;
  const data::Source& validation_;
  StageSetup setup_;
  weights::Layout layout_;
  weights::Versions versions_;
  weights::Gradients gradients_;
  optim::Optimizer optimizer_;
  std::vector<InFlight> in_flight_;
};

}  // namespace twobw::runtime
