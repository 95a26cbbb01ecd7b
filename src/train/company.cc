#include "train/company.h"

#include <new>
#include <utility>

#include "device/memory.h"
#include "train/chain.h"

namespace twobw::train {

Company::Company(const Setup& setup, const std::vector<device::Place>& places, int sequences) {
  std::latch begun(static_cast<std::ptrdiff_t>(places.size()));
  for (const device::Place& place : places)
    workers_.emplace_back([&, place] { work(setup, place, sequences, begun); });
  begun.wait();
}

Company::~Company() {
  stop_ = true;
  for (std::thread& worker : workers_) worker.join();
}

void Company::work(const Setup& setup, const device::Place& place, int sequences, std::latch& begun) {
  bool counted = false;
  const auto count = [&] {
    if (!std::exchange(counted, true)) begun.count_down();
  };
  try {
    device::MemoryPool pool;
    device::PoolScope scope(pool);
    const device::Seat seat("company", place);
    Chain chain(setup, seat);
    chain.set_microbatch(sequences);
    while (!stop_ && !stepping_) {
      chain.time_pass();
      chain.time_step();
      count();
    }
    join_steppers();
    while (!stop_) chain.time_step();
  } catch (const std::bad_alloc&) {
    count();  // less company, then
    join_steppers();
  }
}

void Company::join_steppers() {
  ++steppers_;
  steppers_.notify_all();
}

void Company::step_along() {
  stepping_ = true;
  const int all = static_cast<int>(workers_.size());
  for (int now = steppers_; now < all; now = steppers_) steppers_.wait(now);
}

}  // namespace twobw::train
