// A helper thread: not pinned to the cores of workers, and its exceptions are reported.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <thread>

#include "engine/transport/wait_hub.h"
#include "planning/host/cores.h"

namespace twobw::transport {

// Called on the failing thread, with its name. Not called on cancellation.
using OnFailure = std::function<void(const std::string& thread, const std::exception_ptr& failure)>;

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
