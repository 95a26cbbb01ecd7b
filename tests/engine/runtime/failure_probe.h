// Waits for a failure inside of a running pipeline.
#pragma once

#include <chrono>
#include <mutex>
#include <thread>

#include "engine/runtime/pipeline.h"

namespace twobw::runtime {

struct FailureProbe {
  // Blocks until a worker has failed and its report is made. Thread-safe, while run() runs.
  static void await(Pipeline& pipeline) {
    const auto failed = [&] {
      const std::lock_guard lock(pipeline.failure_mutex_);
      return !pipeline.failures_.empty();
    };
    while (!failed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
};

}  // namespace twobw::runtime
