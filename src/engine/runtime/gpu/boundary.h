// What passes between stages, on this one's GPU. Graphs read and write the same memory every time, so what
// comes is brought to a place that stays, and what goes to the stage before leaves from places of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/memory_terms.h"
#include "engine/models/layer.h"
#include "engine/runtime/stage_compute.h"

namespace twobw::runtime::gpu {

// Used by the stage's thread; copies are queued on its stream. Places are made when they are first needed,
// under capture_mutex(), which the caller must not hold.
class Boundary {
 public:
  // Counts the places' memory in `footprint`, which outlives this.
  Boundary(const StageSetup& setup, Footprint& footprint);

  // Takes in what came for a microbatch; it lies in inputs(slot) then.
  void take_inputs(int slot, const models::Tensors& inputs);
  const models::Tensors& inputs(int slot) const { return slots_[slot].inputs; }

  // Gives where the slot's graphs find what came for its backward: where it came to, if the setup says that
  // this is the same place every time (asserted), else a copy that the next backward's overwrites.
  const models::Tensors& take_gradients(int slot, const models::Tensors& gradients);

  // Gives copies of a microbatch's gradients that stay until the stage before has used them.
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
  models::Tensors gradients_in_;  // where the backwards find them, if they come to other places each time
  std::vector<models::Tensors> outgoing_;  // gradients on their way to the stage before
};

}  // namespace twobw::runtime::gpu
