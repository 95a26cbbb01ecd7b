// In a run all devices work at once and share caches and memory; one measured alone would look
// faster than it then is. Company keeps the others busy with the same work meanwhile.
#pragma once

#include <atomic>
#include <latch>
#include <thread>
#include <vector>

#include "device/place.h"
#include "train/setup.h"

namespace twobw::train {

class Company {
 public:
  // One worker on each, with microbatches of so many sequences; all have begun when this returns.
  Company(const Setup& setup, const std::vector<device::Place>& places, int sequences);
  ~Company();  // waits for them
  Company(const Company&) = delete;
  Company& operator=(const Company&) = delete;

  // From now on they only make optimizer steps, which ask more of the memory than layers do: in a run without
  // delay all devices step at once. All of them do when this returns.
  void step_along();

 private:
  void work(const Setup& setup, const device::Place& place, int sequences, std::latch& begun);
  void join_steppers();

  std::atomic<bool> stop_{false}, stepping_{false};
  std::atomic<int> steppers_ = 0;  // those that only step, or have given up
  std::vector<std::thread> workers_;
};

}  // namespace twobw::train
