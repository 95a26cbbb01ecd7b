#include "engine/runtime/gpu/staging.h"

#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAGuard.h>

#include <cstring>
#include <mutex>
#include <utility>

#include "core/base/error.h"
#include "engine/device/gpu.h"
#include "engine/runtime/gpu/graphs.h"

namespace twobw::runtime::gpu {
namespace {

using at::Tensor;
using device::check_cuda;
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

Uploads::Uploads(const Config& config, const MicrobatchSource& microbatches, int replica, cudaStream_t stream)
    : microbatches_(microbatches),
      replica_(replica),
      count_(microbatches.fields().count(config.pipeline.microbatch, config.model.context)),
      stream_(stream),
      sent_(static_cast<std::size_t>(kOnTheirWay + config.pipeline.prefetch)),
      buffer_(sent_.size() * static_cast<std::size_t>(count_)),
      ahead_(read_ahead_setup(config, microbatches, /*held=*/kOnTheirWay),
             [this](std::int64_t microbatch) { read(microbatch); }) {}

void Uploads::read(std::int64_t microbatch) {
  const data::Batch batch = microbatches_.training(replica_, microbatch).batch;
  std::int64_t* to = buffer_.data() + place(microbatch) * static_cast<std::size_t>(count_);
  for (const data::Field field : architecture::kFields) {
    if (!microbatches_.fields().has(field)) continue;
    const Tensor tensor = batch[field].contiguous();
    std::memcpy(to, tensor.const_data_ptr(), tensor.nbytes());
    to += tensor.numel();
  }
}

void Uploads::send(std::int64_t microbatch, const data::Batch& to) {
  const std::int64_t before = microbatch - kOnTheirWay;
  if (before >= 0 && sent_[place(before)]) {
    check_cuda(cudaEventSynchronize(static_cast<cudaEvent_t>(sent_[place(before)].get())),
               "cudaEventSynchronize");
  }
  ahead_.release(before);
  ahead_.await(microbatch);
  const std::int64_t* from = buffer_.data() + place(microbatch) * static_cast<std::size_t>(count_);
  for (const data::Field field : architecture::kFields) {
    if (!to[field].defined()) continue;
    check_cuda(cudaMemcpyAsync(to[field].mutable_data_ptr(), from, to[field].nbytes(), cudaMemcpyHostToDevice,
                               stream_),
               "cudaMemcpyAsync");
    from += to[field].numel();
  }
  sent_[place(microbatch)] = device::record_stream_event();
}

Results::Results(cudaStream_t stream) : stream_(stream), buffer_(kAhead) {}

void Results::fetch_loss(std::int64_t update, const Tensor& loss) {
  fetch(&buffer_.data()[update % kAhead].loss, loss.const_data_ptr(), sizeof(double));
}

void Results::fetch_control(std::int64_t update, const optim::cuda::Control* control) {
  fetch(&buffer_.data()[update % kAhead].control, control, sizeof(optim::cuda::Control));
  fetched_[update] = device::record_stream_event();
}

const Results::Result& Results::await(std::int64_t update) {
  const auto fetched = fetched_.extract(update);
  check_cuda(cudaEventSynchronize(static_cast<cudaEvent_t>(fetched.mapped().get())), "an update");
  return buffer_.data()[update % kAhead];
}

void Results::fetch(void* to, const void* from, std::size_t size) {
  check_cuda(cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync");
}

HostCopies::HostCopies(int gpu)
    : stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, static_cast<c10::DeviceIndex>(gpu))) {}

at::Tensor HostCopies::copy(const at::Tensor& tensor) {
  std::lock_guard lock(capture_mutex());  // which forbids such an allocation to all threads
  device::await_stream_event(device::record_stream_event(), stream_);
  const c10::cuda::CUDAStreamGuard beside(stream_);
  at::Tensor copy = at::empty(tensor.sizes(), at::TensorOptions(tensor.scalar_type()).pinned_memory(true));
  copy.copy_(tensor.detach(), /*non_blocking=*/true);
  made_ = device::record_stream_event(stream_);
  pending_ = true;
  return copy;
}

void HostCopies::await() {
  if (std::exchange(pending_, false)) device::await_stream_event(made_);
}

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
