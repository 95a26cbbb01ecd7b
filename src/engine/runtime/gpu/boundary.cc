#include "engine/runtime/gpu/boundary.h"

#include <mutex>

#include "core/base/error.h"
#include "engine/runtime/gpu/graphs.h"

namespace twobw::runtime::gpu {
namespace {

using at::Tensor;
using models::Tensors;

Tensors places_for(const Tensors& tensors) {
  Tensors places;
  for (const Tensor& tensor : tensors) places.push_back(at::empty_like(tensor));
  return places;
}

void queue_copies(const Tensors& from, const Tensors& to) {
  for (std::size_t i = 0; i < from.size(); ++i) to[i].copy_(from[i], /*non_blocking=*/true);
}

}  // namespace

Boundary::Boundary(const StageSetup& setup, Footprint& footprint)
    : slots_before_(setup.slots_before),
      fixed_gradient_address_(setup.fixed_gradient_address),
      footprint_(footprint),
      slots_(setup.slots) {}

void Boundary::take_inputs(int slot, const Tensors& inputs) {
  Tensors& places = slots_[slot].inputs;
  if (places.empty() && !inputs.empty()) {
    std::lock_guard lock(capture_mutex());
    places = places_for(inputs);
    footprint_[Term::Inputs] += bytes_of(places);
  }
  queue_copies(inputs, places);
}

const Tensors& Boundary::take_gradients(int slot, const Tensors& gradients) {
  return fixed_gradient_address_ ? find(slots_[slot], gradients) : bring_in(gradients);
}

// A slot's gradients arrive at the address that its graphs read.
const Tensors& Boundary::find(Places& slot, const Tensors& gradients) {
  if (slot.gradients.empty()) slot.gradients = gradients;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    TWOBW_ASSERT(gradients[i].const_data_ptr() == slot.gradients[i].const_data_ptr(),
                 "a gradient arrived at another address");
  }
  return slot.gradients;
}

const Tensors& Boundary::bring_in(const Tensors& gradients) {
  if (gradients_in_.empty() && !gradients.empty()) {
    std::lock_guard lock(capture_mutex());
    gradients_in_ = places_for(gradients);
    footprint_[Term::Transfer] += bytes_of(gradients_in_);
  }
  queue_copies(gradients, gradients_in_);
  return gradients_in_;
}

// The previous stage has used a gradient when it begins the forward that frees the slot: as many microbatches
// later as it has in flight, which is when this stage reuses the buffer.
const Tensors& Boundary::hand_back(std::int64_t microbatch, const Tensors& gradients) {
  if (outgoing_.empty()) {
    std::lock_guard lock(capture_mutex());
    outgoing_.resize(slots_before_);
    for (Tensors& places : outgoing_) {
      places = places_for(gradients);
      footprint_[Term::Transfer] += bytes_of(places);
    }
  }
  const Tensors& places = outgoing_[microbatch % outgoing_.size()];
  queue_copies(gradients, places);
  return places;
}

}  // namespace twobw::runtime::gpu
