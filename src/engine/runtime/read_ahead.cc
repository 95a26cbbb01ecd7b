#include "engine/runtime/read_ahead.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/base/error.h"
#include "engine/transport/wait_hub.h"
#include "planning/host/cores.h"

namespace twobw::runtime {

ReadAhead::ReadAhead(ReadAheadSetup setup, Fill fill)
    : setup_(std::move(setup)), places_(std::max(1, setup_.ahead + setup_.held)), fill_(std::move(fill)) {
  if (setup_.ahead > 0) thread_ = std::thread([this] { run(); });
}

ReadAhead::~ReadAhead() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ReadAhead::run() {
  device::unbind_thread(setup_.name);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stops_ || (next_ < end_ && !failure_); });
    if (stops_) return;
    fill_next(lock);
    changed_.notify_all();
  }
}

// Without the lock while it fills. If another sequence has begun by then, it was for nothing.
void ReadAhead::fill_next(std::unique_lock<std::mutex>& lock) {
  const std::int64_t number = next_, sequence = sequence_;
  std::exception_ptr failure;
  lock.unlock();
  try {
    fill_(number);
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  if (sequence != sequence_) return;
  failure_ = failure;
  if (!failure) ++next_;
}

void ReadAhead::begin_at(std::int64_t number) {
  ++sequence_;
  first_ = next_ = number;
  end_ = number + places_;
  failure_ = nullptr;
  changed_.notify_all();
}

void ReadAhead::await(std::int64_t number) {
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  if (number != wanted_) begin_at(number);
  wanted_ = number + 1;
  TWOBW_ASSERT(failure_ || number < end_, "{} is asked for, and {} places from {} on are not released",
               number, places_, first_);
  const auto ready = [&] { return next_ > number || failure_; };
  if (thread_.joinable()) {
    changed_.wait_for(lock, std::chrono::duration<double>(setup_.timeout), ready);
  } else {
    while (!ready()) fill_next(lock);
  }
  waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (next_ > number) return;
  if (failure_) std::rethrow_exception(failure_);
  throw transport::WaitTimeout(fmt::format("no data of microbatch {} within {:g} s", number, setup_.timeout));
}

void ReadAhead::release(std::int64_t number) {
  {
    const std::lock_guard lock(mutex_);
    if (sequence_ == 0) return;  // nothing has been asked for
    first_ = std::max(first_, number + 1);
    end_ = first_ + places_;
  }
  changed_.notify_all();
}

}  // namespace twobw::runtime
