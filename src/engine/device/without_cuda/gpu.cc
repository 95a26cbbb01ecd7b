// In place of the GPU's files where LibTorch or the build has no CUDA.
#include "core/base/error.h"
#include "engine/device/device.h"
#include "engine/device/gpu_thread.h"
#include "engine/device/stream_event.h"

namespace twobw::device {

int gpu_count() {
  return 0;
}

bool built_with_cuda() {
  return false;
}

std::vector<std::string> gpu_ids() {
  return {};
}

bool has_bfloat16(const GpuSlice&) {
  return false;
}

GpuMemory gpu_memory(const GpuSlice&) {
  return {};
}

void release_unused_gpu_memory() {}

std::string gpu_name(const GpuSlice& slice) {
  return describe(slice);
}

std::string describe_gpu(const GpuSlice& slice) {
  return describe(slice);
}

std::unique_ptr<Meter> make_gpu_meter(const GpuSlice&) {
  return nullptr;
}

struct GpuThread::State {};

GpuThread::GpuThread(const GpuSlice& slice) {
  fail_input("devices has '{}', but this program was built without CUDA", describe(slice));
}

GpuThread::~GpuThread() = default;

at::TensorOptions GpuThread::compute_options(const std::string&) const {
  return at::kFloat;
}

std::unique_ptr<Clock> GpuThread::make_clock(std::chrono::steady_clock::time_point start) const {
  return std::make_unique<ThreadClock>(start);
}

StreamEvent record_stream_event() {
  return nullptr;
}

void await_stream_event(const StreamEvent&) {}

bool block_until(const StreamEvent&, const std::function<bool()>&) {
  return true;
}

}  // namespace twobw::device
