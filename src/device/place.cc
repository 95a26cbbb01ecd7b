#include "device/place.h"

#include "device/cpu.h"

namespace twobw::device {

std::string describe(const Place& place) {
  return place.gpu ? describe(*place.gpu) : describe(place.cores);
}

std::vector<Place> deal_places(int count) {
  std::vector<Place> places;
  for (const CoreSet& cores : deal_cores(count)) places.push_back({.cores = cores});
  return places;
}

Seat::Seat(const std::string& name, const Place& place, std::chrono::steady_clock::time_point start) {
  bind_thread(name, place.gpu ? CoreSet() : place.cores);
  if (!place.gpu) {
    clock_ = std::make_unique<ThreadClock>(start);
    return;
  }
  gpu_ = std::make_unique<GpuThread>(*place.gpu);
  clock_ = gpu_->make_clock(start);
}

at::TensorOptions Seat::compute(const std::string& precision) const {
  return gpu_ ? gpu_->compute_options(precision) : at::TensorOptions(at::kFloat);
}

}  // namespace twobw::device
