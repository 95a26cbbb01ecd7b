#include "engine/runtime/gpu/memory.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

namespace twobw::runtime::gpu {
namespace {

c10::DeviceIndex this_gpu() {
  return static_cast<c10::DeviceIndex>(c10::cuda::current_device());
}

c10::CachingAllocator::Stat allocated() {
  return c10::cuda::CUDACachingAllocator::getDeviceStats(this_gpu()).allocated_bytes[0];
}

}  // namespace

std::mutex& capture_mutex() {
  static std::mutex mutex;
  return mutex;
}

Watermark::Watermark() : before_(allocated().current) {
  c10::cuda::CUDACachingAllocator::resetPeakStats(this_gpu());
}

double Watermark::live() const {
  return static_cast<double>(allocated().current - before_);
}

double Watermark::peak() const {
  return static_cast<double>(allocated().peak - before_);
}

double bytes_of(const models::Tensors& tensors) {
  double sum = 0;
  for (const at::Tensor& tensor : tensors) sum += static_cast<double>(tensor.nbytes());
  return sum;
}

}  // namespace twobw::runtime::gpu
