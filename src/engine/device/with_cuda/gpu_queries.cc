// Queries of GPUs.
#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "engine/device/device.h"
#include "engine/device/gpu.h"
#include "engine/device/gpu_thread.h"

namespace twobw::device {

int gpu_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

bool built_with_cuda() {
  return true;
}

std::vector<std::string> gpu_ids() {
  std::vector<std::string> ids;
  for (int gpu = 0; gpu < gpu_count(); ++gpu) {
    cudaDeviceProp properties{};
    check_cuda(cudaGetDeviceProperties(&properties, gpu), "cudaGetDeviceProperties");
    std::string id;
    for (const char byte : properties.uuid.bytes)
      id += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    ids.push_back(std::move(id));
  }
  return ids;
}

bool has_bfloat16(const GpuSlice& slice) {
  constexpr int kAmpere = 8;
  int major = 0;
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, slice.gpu),
             "cudaDeviceGetAttribute");
  return major >= kAmpere;
}

GpuMemory gpu_memory(const GpuSlice& slice) {
  std::size_t free = 0, total = 0;
  check_cuda(cudaSetDevice(slice.gpu), "cudaSetDevice");
  check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return {.free = static_cast<double>(free), .total = static_cast<double>(total)};
}

void release_unused_gpu_memory() {
  c10::cuda::CUDACachingAllocator::emptyCache();
}

std::string gpu_name(const GpuSlice& slice) {
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, slice.gpu), "cudaGetDeviceProperties");
  return properties.name;
}

std::string describe_gpu(const GpuSlice& slice) {
  if (slice.slices == 1) return fmt::format("cuda: {}", gpu_name(slice));
  return fmt::format("cuda: one of {} slices of {}", slice.slices, gpu_name(slice));
}

namespace {

class AllocatorMeter final : public Meter {
 public:
  explicit AllocatorMeter(int gpu) : gpu_(static_cast<c10::DeviceIndex>(gpu)) {}
  double live() const override { return static_cast<double>(statistics().current); }
  double peak() const override { return static_cast<double>(statistics().peak); }
  void reset_peak() override { c10::cuda::CUDACachingAllocator::resetPeakStats(gpu_); }

 private:
  c10::CachingAllocator::Stat statistics() const {
    return c10::cuda::CUDACachingAllocator::getDeviceStats(gpu_).allocated_bytes[0];
  }
  c10::DeviceIndex gpu_;
};

}  // namespace

std::unique_ptr<Meter> make_gpu_meter(const GpuSlice& slice) {
  return std::make_unique<AllocatorMeter>(slice.gpu);
}

}  // namespace twobw::device
