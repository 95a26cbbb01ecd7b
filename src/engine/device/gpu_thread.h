// GPUs: queries, and the binding of a thread to one or to a slice of one.
#pragma once

#include <ATen/core/TensorBody.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "core/base/gpu_name.h"
#include "engine/device/clock.h"

namespace twobw::device {

// Number of usable GPUs; 0 in a build without CUDA.
int gpu_count();
bool built_with_cuda();
// A unique id of each GPU, the same in all processes of a host.
std::vector<std::string> gpu_ids();

// Whether the GPU supports bfloat16: Ampere and later.
bool has_bfloat16(const GpuSlice& slice);

struct GpuMemory {
  double free = 0, total = 0;  // of the whole GPU
};
GpuMemory gpu_memory(const GpuSlice& slice);
// Returns LibTorch's cached blocks to the driver: they serve tensors of the same stream only, and a stage
// that captures graphs cannot free them.
void release_unused_gpu_memory();
std::string gpu_name(const GpuSlice& slice);  // of the whole GPU: "NVIDIA H200"
std::string describe_gpu(const GpuSlice& slice);
class Meter;  // engine/device/device.h
std::unique_ptr<Meter> make_gpu_meter(const GpuSlice& slice);

// Binds the calling thread to the device's own stream for its lifetime.
class GpuThread {
 public:
  // Throws InputError if the GPU cannot be divided like this, RunError if CUDA fails.
  explicit GpuThread(const GpuSlice& slice);
  ~GpuThread();
  GpuThread(const GpuThread&) = delete;
  GpuThread& operator=(const GpuThread&) = delete;

  // Number format and device of the layers' tensors, for a train.precision.
  at::TensorOptions compute_options(const std::string& precision) const;
  std::unique_ptr<Clock> make_clock(std::chrono::steady_clock::time_point start) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace twobw::device
