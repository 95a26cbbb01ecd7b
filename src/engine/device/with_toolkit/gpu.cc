#include "engine/device/gpu.h"

#include <mutex>
#include <unordered_map>

#include "core/base/error.h"

namespace twobw::device {
namespace {

std::mutex mutex;
std::unordered_map<cudaStream_t, GpuContext> contexts;

}  // namespace

const GpuContext& gpu_context(cudaStream_t stream) {
  std::lock_guard lock(mutex);
  const auto found = contexts.find(stream);
  TWOBW_ASSERT(found != contexts.end(), "a stream of no worker");
  return found->second;  // stays where it is while others come and go
}

void register_gpu_stream(cudaStream_t stream, const GpuContext& context) {
  std::lock_guard lock(mutex);
  contexts[stream] = context;
}

void forget_gpu_stream(cudaStream_t stream) {
  std::lock_guard lock(mutex);
  contexts.erase(stream);
}

void check_cuda(cudaError_t error, const char* what) {
  if (error != cudaSuccess) fail_run("CUDA: {} failed: {}", what, cudaGetErrorString(error));
}

}  // namespace twobw::device
