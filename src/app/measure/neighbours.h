// In a run all devices work at once and share caches and memory; one measured alone would look
// faster than it then is. Neighbours keeps the others busy with the same work meanwhile.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

#include "engine/device/device.h"
#include "engine/runtime/setup.h"

namespace twobw::measure {

class Neighbours {
 public:
  // One worker on each, at rest.
  Neighbours(const runtime::Setup& setup, const std::vector<device::Device>& devices);
  ~Neighbours();  // waits for them
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

  // What they do from now on; all of them have begun when this returns.
  // Microbatches of so many sequences, each with a step:
  void compute(int sequences) { assign(sequences); }
  // Steps alone, which ask more of the memory than layers do: in a run without delay all devices step at
  // once.
  void step() { assign(kStep); }

 private:
  static constexpr int kStep = 0, kLeave = -1;

  void assign(int task);
  void work(const runtime::Setup& setup, const device::Device& device);

  std::atomic<int> task_ = kStep, tasks_ = 0;  // the last one, and how many there were
  std::atomic<int> begun_ = 0;                 // workers that have begun it, or cannot
  std::vector<std::thread> workers_;
};

}  // namespace twobw::measure
