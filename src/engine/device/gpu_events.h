// CUDA's events, made once and used over and over.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace twobw::device {

// Events are used over and over; a wait that was queued keeps what it waits for. An event can be recorded on
// the GPU that it was made for alone, though any may wait for it.
class EventPool {
 public:
  explicit EventPool(unsigned flags) : flags_(flags) {}

  // For the calling thread's GPU.
  std::shared_ptr<void> take();

 private:
  unsigned flags_;
  std::mutex mutex_;
  std::map<int, std::vector<cudaEvent_t>> free_;  // by GPU
};

// They outlive every worker. Those with times are for clocks.
EventPool& plain_events();
EventPool& timed_events();

}  // namespace twobw::device
