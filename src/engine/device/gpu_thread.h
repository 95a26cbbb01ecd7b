// A thread that computes on a GPU or a slice of one. While it lives, the thread's tensors operations go to
// the device's own queue (a stream).
#pragma once

#include <ATen/core/TensorBody.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "core/base/gpu_name.h"
#include "engine/device/clock.h"

namespace twobw::device {

// The number of GPUs that can be used; 0 also in a build without CUDA.
int gpu_count();
bool built_with_cuda();
// Of each of them, by its number: the same in all processes of a host, and on no other GPU.
std::vector<std::string> gpu_ids();

// Whether it computes in bfloat16: from Ampere on.
bool has_bfloat16(const GpuSlice& slice);

struct GpuMemory {
  double free = 0, total = 0;  // of the whole GPU
};
GpuMemory gpu_memory(const GpuSlice& slice);
// LibTorch keeps what tensors no longer use, for tensors of the same stream; this gives it back, since the
// next run has other streams, and a stage that captures its graphs cannot ask for it.
void release_unused_gpu_memory();
std::string gpu_name(const GpuSlice& slice);  // of the whole GPU: "NVIDIA H200"
std::string describe_gpu(const GpuSlice& slice);
class Meter;  // engine/device/device.h
std::unique_ptr<Meter> make_gpu_meter(const GpuSlice& slice);

class GpuThread {
 public:
  // Throws InputError where the GPU cannot be cut so, RunError where CUDA fails.
  explicit GpuThread(const GpuSlice& slice);
  ~GpuThread();
  GpuThread(const GpuThread&) = delete;
  GpuThread& operator=(const GpuThread&) = delete;

  // Of tensors to compute with, in train.precision.
  at::TensorOptions compute_options(const std::string& precision) const;
  std::unique_ptr<Clock> make_clock(std::chrono::steady_clock::time_point start) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace twobw::device
