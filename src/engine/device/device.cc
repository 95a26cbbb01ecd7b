#include "engine/device/device.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <mutex>

#include "engine/device/memory.h"
#include "planning/host/machine.h"

namespace twobw::device {

void bind_thread(const std::string& name, const CoreSet& set) {
  pin_thread(name, set);
  if (set.cores.empty()) return;
  // OpenMP keeps this per calling thread; its helpers inherit the affinity set above.
  at::set_num_threads(static_cast<int>(set.cores.size()));
}

void initialize() {
  static std::once_flag once;
  std::call_once(once, [] {
    install_allocator();
#if defined(__aarch64__)
    // On aarch64 oneDNN runs fp32 products through Arm Compute, whose scheduler locks and ignores a thread's
    // core count; the BLAS is as fast and respects it.
    at::globalContext().setUserEnabledMkldnn(false);
#endif
  });
}

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

namespace {

class PoolMeter final : public Meter {
 public:
  explicit PoolMeter(MemoryPool& pool) : pool_(pool) {}
  double live() const override { return static_cast<double>(pool_.live_bytes()); }
  double peak() const override { return static_cast<double>(pool_.peak_bytes()); }
  void reset_peak() override { pool_.reset_peak(); }

 private:
  MemoryPool& pool_;
};

}  // namespace

std::unique_ptr<Meter> make_meter(const Device& device, MemoryPool& pool) {
  if (device.gpu) return make_gpu_meter(*device.gpu);
  return std::make_unique<PoolMeter>(pool);
}

double free_memory(const Device& device) {
  return device.gpu ? gpu_memory(*device.gpu).free : available_memory();
}

double total_memory(const Device& device) {
  if (device.gpu) return gpu_memory(*device.gpu).total / device.gpu->slices;
  const auto share =
      static_cast<double>(device.cores.cores.size()) / static_cast<double>(available_cores().size());
  return system_memory() * share;
}

std::string describe_hardware(const Device& device) {
  if (device.gpu) return describe_gpu(*device.gpu);
  const std::string processor = processor_name();
  const std::size_t count = device.cores.cores.size();
  return fmt::format("cpu: {} core{} of {}", count, count == 1 ? "" : "s",
                     processor.empty() ? "an unnamed processor" : processor);
}

}  // namespace twobw::device
