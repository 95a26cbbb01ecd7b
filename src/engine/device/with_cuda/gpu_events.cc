#include "engine/device/gpu_events.h"

#include "engine/device/gpu.h"

namespace twobw::device {

std::shared_ptr<void> EventPool::take() {
  int gpu = 0;
  check_cuda(cudaGetDevice(&gpu), "cudaGetDevice");
  cudaEvent_t event = nullptr;
  {
    std::lock_guard lock(mutex_);
    std::vector<cudaEvent_t>& free = free_[gpu];
    if (!free.empty()) {
      event = free.back();
      free.pop_back();
    }
  }
  if (event == nullptr) check_cuda(cudaEventCreateWithFlags(&event, flags_), "cudaEventCreate");
  return {event, [this, gpu](void* used) {
            std::lock_guard lock(mutex_);
            free_[gpu].push_back(static_cast<cudaEvent_t>(used));
          }};
}

EventPool& plain_events() {
  static auto* pool = new EventPool(cudaEventDisableTiming);
  return *pool;
}
EventPool& timed_events() {
  static auto* pool = new EventPool(cudaEventDefault);
  return *pool;
}

}  // namespace twobw::device
