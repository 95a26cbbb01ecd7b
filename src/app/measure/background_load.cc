#include "app/measure/background_load.h"

#include <memory>
#include <new>
#include <system_error>
#include <utility>

#include "app/measure/layer_bench.h"
#include "engine/device/memory.h"

namespace twobw::measure {

BackgroundLoad::BackgroundLoad(const runtime::Setup& setup, const std::vector<device::Device>& devices) {
  try {
    for (const device::Device& device : devices) workers_.emplace_back([&, device] { work(setup, device); });
  } catch (const std::system_error&) {  // fewer workers
  }
}

BackgroundLoad::~BackgroundLoad() {
  assign(kLeave);
  for (std::thread& worker : workers_) worker.join();
}

void BackgroundLoad::assign(int task) {
  begun_ = 0;
  task_ = task;
  ++tasks_;
  tasks_.notify_all();
  const int all = static_cast<int>(workers_.size());
  for (int now = begun_; now < all; now = begun_) begun_.wait(now);
}

void BackgroundLoad::work(const runtime::Setup& setup, const device::Device& device) {
  device::MemoryPool of_state;
  device::PoolScope scope(of_state);
  const device::DeviceBinding binding("background", device);
  std::unique_ptr<LayerBench> bench;
  for (int done = 0, task = kStep; task != kLeave;) {
    tasks_.wait(done);
    done = tasks_;  // every worker starts a task before the next one
    task = task_;
    bool counted = false;
    const auto count = [&] {
      if (std::exchange(counted, true)) return;
      ++begun_;
      begun_.notify_all();
    };
    try {
      if (!bench && task != kLeave)
        bench = std::make_unique<LayerBench>(setup, binding.clock(),
                                             binding.compute(setup.config.train.precision));
      device::MemoryPool pool;
      device::PoolScope inner(pool);
      if (task > kStep) bench->set_microbatch(task);
      while (task != kLeave && tasks_ == done) {
        if (task > kStep) bench->run_pass();
        bench->time_step();
        count();
      }
    } catch (const std::bad_alloc&) {  // fewer workers
    }
    count();
  }
}

}  // namespace twobw::measure
