// Contention as in a run: keeps other devices busy with the same work while one is measured. Alone, it would
// look faster, since devices share caches and memory.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

#include "engine/device/device.h"
#include "engine/runtime/setup.h"

namespace twobw::measure {

class BackgroundLoad {
 public:
  // One idle worker per device.
  BackgroundLoad(const runtime::Setup& setup, const std::vector<device::Device>& devices);
  ~BackgroundLoad();  // joins them
  BackgroundLoad(const BackgroundLoad&) = delete;
  BackgroundLoad& operator=(const BackgroundLoad&) = delete;

  // Switches to microbatches of this size, each with an optimizer step. Returns once all have started.
  void compute(int sequences) { assign(sequences); }
  // Switches to steps only, which need more bandwidth than layers: synchronous schedules step everywhere
  // at once.
  void step() { assign(kStep); }

 private:
  static constexpr int kStep = 0, kLeave = -1;

  void assign(int task);
  void work(const runtime::Setup& setup, const device::Device& device);

  std::atomic<int> task_ = kStep, tasks_ = 0;  // the current one, and their number
  std::atomic<int> begun_ = 0;                 // workers that have started it or failed to
  std::vector<std::thread> workers_;
};

}  // namespace twobw::measure
