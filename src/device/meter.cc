#include "device/meter.h"

#include <fmt/format.h>

#include "device/available.h"
#include "device/gpu_thread.h"
#include "device/machine.h"

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

std::unique_ptr<Meter> make_meter(const Place& place, MemoryPool& pool) {
  if (place.gpu) return make_gpu_meter(*place.gpu);
  return std::make_unique<PoolMeter>(pool);
}

double free_memory(const Place& place) {
  return place.gpu ? gpu_memory(*place.gpu).free : available_memory();
}

double total_memory(const Place& place) {
  if (place.gpu) return gpu_memory(*place.gpu).total / place.gpu->slices;
  const auto share =
      static_cast<double>(place.cores.cores.size()) / static_cast<double>(available_cores().size());
  return system_memory() * share;
}

std::string describe_hardware(const Place& place) {
  if (place.gpu) return describe_gpu(*place.gpu);
  const std::string processor = processor_name();
  const std::size_t count = place.cores.cores.size();
  return fmt::format("cpu: {} core{} of {}", count, count == 1 ? "" : "s",
                     processor.empty() ? "an unnamed processor" : processor);
}

}  // namespace twobw::device
