// The tensors at a stage's boundaries, on its GPU. Graphs read and write fixed addresses, so incoming tensors
// are copied to fixed buffers, and outgoing gradients leave from their own buffers.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/memory_terms.h"
#include "engine/models/layer.h"
#include "engine/runtime/stage_compute.h"

namespace twobw::runtime::gpu {

// Used by the stage's thread; copies are queued on its stream. Buffers are allocated on first use under
// capture_mutex(), which the caller must not hold.
class Boundary {
 public:
  // Counts the buffers in `footprint`, which outlives this.
  Boundary(const StageSetup& setup, Footprint& footprint);

  // Copies a microbatch's inputs to inputs(slot).
  void take_inputs(int slot, const models::Tensors& inputs);
  const models::Tensors& inputs(int slot) const { return slots_[slot].inputs; }

  // The gradients for a slot's backward at a fixed address: their own, if the setup promises that it is fixed
  // (asserted), else that of a copy, which the next backward overwrites.
  const models::Tensors& take_gradients(int slot, const models::Tensors& gradients);

  // Copies of a microbatch's gradients that stay valid until the previous stage has used them.
  const models::Tensors& hand_back(std::int64_t microbatch, const models::Tensors& gradients);

 private:
  struct Places {
    models::Tensors inputs, gradients;
  };
  const models::Tensors& find(Places& slot, const models::Tensors& gradients);
  const models::Tensors& bring_in(const models::Tensors& gradients);

  int slots_before_;
  bool fixed_gradient_address_;
  Footprint& footprint_;
  std::vector<Places> slots_;
  models::Tensors gradients_in_;           // fixed copy, if they arrive at changing addresses
  std::vector<models::Tensors> outgoing_;  // gradients on their way to the previous stage
};

}  // namespace twobw::runtime::gpu
