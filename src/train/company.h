// In a run all cores work at once and share caches and memory; a core measured alone would look
// faster than it then is. Company keeps other cores busy with the same work meanwhile.
#pragma once

#include <atomic>
#include <latch>
#include <thread>
#include <vector>

#include "device/cpu.h"
#include "train/setup.h"

namespace twobw::train {

class Company {
 public:
  // One worker on each, with microbatches of so many sequences; all have begun when this returns.
  Company(const Setup& setup, const std::vector<device::CoreSet>& cores, int sequences);
  ~Company();  // waits for them
  Company(const Company&) = delete;
  Company& operator=(const Company&) = delete;

 private:
  void work(const Setup& setup, const device::CoreSet& cores, int sequences, std::latch& begun);

  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

}  // namespace twobw::train
