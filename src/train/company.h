// In a run all devices work at once and share caches and memory; one measured alone would look
// faster than it then is. Company keeps the others busy with the same work meanwhile.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

#include "device/place.h"
#include "train/setup.h"

namespace twobw::train {

class Company {
 public:
  // One worker on each, at rest.
  Company(const Setup& setup, const std::vector<device::Place>& places);
  ~Company();  // waits for them
  Company(const Company&) = delete;
  Company& operator=(const Company&) = delete;

  // What they do from now on; all of them have begun when this returns.
  // Microbatches of so many sequences, each with a step:
  void compute(int sequences) { assign(sequences); }
  // Steps alone, which ask more of the memory than layers do: in a run without delay all devices step at
  // once.
  void step() { assign(kStep); }

 private:
  static constexpr int kStep = 0, kLeave = -1;

  void assign(int task);
  void work(const Setup& setup, const device::Place& place);

  std::atomic<int> task_ = kStep, tasks_ = 0;  // the last one, and how many there were
  std::atomic<int> begun_ = 0;                 // workers that have begun it, or cannot
  std::vector<std::thread> workers_;
};

}  // namespace twobw::train
