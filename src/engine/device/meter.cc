#include "engine/device/meter.h"

#include <fmt/format.h>

#include "engine/device/gpu_thread.h"
#include "planning/host/machine.h"

namespace twobw::device {
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
