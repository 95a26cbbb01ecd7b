// The device of a worker: CPU cores, a GPU or a slice of one; and the binding of a thread to it.
#pragma once

#include <ATen/core/TensorBody.h>
#include <c10/core/ScalarType.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/gpu_name.h"
#include "engine/device/clock.h"
#include "engine/device/gpu_thread.h"
#include "engine/device/memory.h"
#include "planning/host/cores.h"

namespace twobw::device {

// Process-wide settings, to be made before the first tensor: see device.cc.
void initialize();

struct Device {
  CoreSet cores = {};
  std::optional<GpuSlice> gpu = {};  // instead of the cores

  static void fields(auto& self, auto&& visit) { visit(self.cores.cores, self.gpu); }
};

std::string describe(const Device& device);
// The machine's cores, divided among `count` workers.
std::vector<Device> deal_devices(int count);

// Selects reproducible GPU kernels, even slower ones. To be called before any binding.
void compute_deterministically();

// The number format of train.precision.
inline at::ScalarType number_format(const std::string& precision) {
  if (precision == "bf16") return at::kBFloat16;
  return precision == "fp16" ? at::kHalf : at::kFloat;
}

// Names the calling thread and binds it and its intra-op threads, one for each core, to the cores.
void bind_thread(const std::string& name, const CoreSet& set);

// Binds the calling thread to a device for its lifetime.
class DeviceBinding {
 public:
  DeviceBinding(const std::string& name, const Device& device,
                std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now());

  Clock& clock() const { return *clock_; }  // counts from `start`
  // Number format and device of the layers' tensors, for a train.precision.
  at::TensorOptions compute(const std::string& precision) const;

 private:
  std::unique_ptr<GpuThread> gpu_;
  std::unique_ptr<Clock> clock_;
};

// Bytes that tensors take on the calling thread's device.
class Meter {
 public:
  virtual ~Meter() = default;
  virtual double live() const = 0;
  virtual double peak() const = 0;  // since the last reset_peak()
  virtual void reset_peak() = 0;
};

// Meters the pool on a CPU, and all of the process's tensors on a GPU.
std::unique_ptr<Meter> make_meter(const Device& device, MemoryPool& pool);

// Bytes available, and in total; a slice has its share of the GPU.
double free_memory(const Device& device);
double total_memory(const Device& device);

// "cpu: 2 cores of ...", "cuda: 32 of 132 multiprocessors of NVIDIA H200".
std::string describe_hardware(const Device& device);

}  // namespace twobw::device
