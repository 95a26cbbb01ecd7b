#include "core/base/threads.h"

#include <future>
#include <thread>
#include <vector>

namespace twobw {

void run_on_threads(int count, const std::function<void(int)>& work) {
  std::promise<bool> started;
  const std::shared_future<bool> all_started = started.get_future().share();
  std::vector<std::jthread> threads;
  try {
    for (int i = 0; i < count; ++i) {
      threads.emplace_back([&work, all_started, i] {
        if (all_started.get()) work(i);
      });
    }
  } catch (...) {
    started.set_value(false);
    throw;
  }
  started.set_value(true);
}

}  // namespace twobw
