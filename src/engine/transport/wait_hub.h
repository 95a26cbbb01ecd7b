// The one lock and condition on which the workers of a process wait for each other: a pipeline hands over a
// few hundred messages a second, and one place to wait is one place to end every wait. And helper threads,
// whose failures end all waits.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "planning/host/cores.h"

namespace twobw::transport {

// A wait exceeded the timeout.
class WaitTimeout : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The wait was ended because another worker failed.
class Cancelled : public std::runtime_error {
 public:
  Cancelled() : std::runtime_error("cancelled") {}
};

class WaitHub {
 public:
  explicit WaitHub(std::chrono::duration<double> timeout) : timeout_(timeout) {}

  // Runs `change` under the lock and wakes all waiters.
  template <typename Change>
  void update(Change change) {
    {
      std::lock_guard lock(mutex_);
      change();
    }
    changed_.notify_all();
  }

  // Blocks until `ready()`, then returns `take()`, both under the lock. Throws Cancelled, or WaitTimeout that
  // names `what` it waited for.
  template <typename Ready, typename Take>
  auto wait(const std::string& what, Ready ready, Take take) {
    std::unique_lock lock(mutex_);
    const bool done = changed_.wait_for(lock, timeout_, [&] { return cancelled_ || ready(); });
    if (cancelled_) throw Cancelled();
    if (!done) throw WaitTimeout(fmt::format("no {} within {:g} s", what, timeout_.count()));
    return take();
  }

  void cancel() {
    update([this] { cancelled_ = true; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::chrono::duration<double> timeout_;
  bool cancelled_ = false;
};

// Called on the failing thread, with its name. Not called on cancellation.
using OnFailure = std::function<void(const std::string& thread, const std::exception_ptr& failure)>;

// Starts a thread that is not pinned to the cores of workers and reports its exceptions.
inline std::thread start_helper_thread(std::string name, OnFailure on_failure, std::function<void()> work) {
  return std::thread([name = std::move(name), on_failure = std::move(on_failure), work = std::move(work)] {
    device::unbind_thread(name);
    try {
      work();
    } catch (const Cancelled&) {
    } catch (...) {
      on_failure(name, std::current_exception());
    }
  });
}

}  // namespace twobw::transport
