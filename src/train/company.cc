#include "train/company.h"

#include <memory>
#include <new>
#include <utility>

#include "device/memory.h"
#include "train/chain.h"

namespace twobw::train {

Company::Company(const Setup& setup, const std::vector<device::Place>& places) {
  for (const device::Place& place : places) workers_.emplace_back([&, place] { work(setup, place); });
}

Company::~Company() {
  assign(kLeave);
  for (std::thread& worker : workers_) worker.join();
}

void Company::assign(int task) {
  begun_ = 0;
  task_ = task;
  ++tasks_;
  tasks_.notify_all();
  const int all = static_cast<int>(workers_.size());
  for (int now = begun_; now < all; now = begun_) begun_.wait(now);
}

void Company::work(const Setup& setup, const device::Place& place) {
  device::MemoryPool of_state;
  device::PoolScope scope(of_state);
  const device::Seat seat("company", place);
  std::unique_ptr<Chain> chain;
  for (int done = 0, task = kStep; task != kLeave;) {
    tasks_.wait(done);
    done = tasks_;  // everybody begins a task before there is another
    task = task_;
    bool counted = false;
    const auto count = [&] {
      if (std::exchange(counted, true)) return;
      ++begun_;
      begun_.notify_all();
    };
    try {
      if (!chain && task != kLeave) chain = std::make_unique<Chain>(setup, seat);
      device::MemoryPool pool;
      device::PoolScope inner(pool);
      if (task > kStep) chain->set_microbatch(task);
      while (task != kLeave && tasks_ == done) {
        if (task > kStep) chain->time_pass();
        chain->time_step();
        count();
      }
    } catch (const std::bad_alloc&) {  // less company, then
    }
    count();
  }
}

}  // namespace twobw::train
