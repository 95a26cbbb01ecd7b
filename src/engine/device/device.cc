#include "engine/device/device.h"

#include <ATen/Context.h>

#include "engine/device/cpu.h"
#include "engine/device/number_format.h"

namespace twobw::device {

std::string describe(const Device& device) {
  return device.gpu ? describe(*device.gpu) : describe(device.cores);
}

std::vector<Device> deal_devices(int count) {
  std::vector<Device> devices;
  for (const CoreSet& cores : deal_cores(count)) devices.push_back({.cores = cores});
  return devices;
}

void compute_deterministically() {
  at::Context& context = at::globalContext();
  if (context.deterministicAlgorithms()) return;
  context.setDeterministicFillUninitializedMemory(false);
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
}

DeviceBinding::DeviceBinding(const std::string& name, const Device& device,
                             std::chrono::steady_clock::time_point start) {
  bind_thread(name, device.gpu ? CoreSet() : device.cores);
  if (!device.gpu) {
    clock_ = std::make_unique<ThreadClock>(start);
    return;
  }
  gpu_ = std::make_unique<GpuThread>(*device.gpu);
  clock_ = gpu_->make_clock(start);
}

at::TensorOptions DeviceBinding::compute(const std::string& precision) const {
  return gpu_ ? gpu_->compute_options(precision) : at::TensorOptions(number_format(precision));
}

}  // namespace twobw::device
