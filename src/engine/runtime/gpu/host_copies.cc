#include "engine/runtime/gpu/host_copies.h"

#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAGuard.h>

#include <mutex>
#include <utility>

#include "engine/device/gpu.h"
#include "engine/runtime/gpu/memory.h"

namespace twobw::runtime::gpu {

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

}  // namespace twobw::runtime::gpu
