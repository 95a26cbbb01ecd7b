// A blocking queue, and work on several threads.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace twobw {

// Blocking queue for any number of producers and consumers.
template <typename Item>
class Inbox {
 public:
  void put(Item item) {
    {
      std::lock_guard lock(mutex_);
      items_.push_back(std::move(item));
    }
    changed_.notify_one();
  }

  // Ends the queue; items in it can still be taken.
  void close() {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
  }

  // The next item, blocking for it; null once the queue is closed and empty.
  std::optional<Item> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return closed_ || !items_.empty(); });
    if (items_.empty()) return std::nullopt;
    std::optional<Item> item = std::move(items_.front());
    items_.pop_front();
    return item;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  bool closed_ = false;
};

// Calls work(0), ..., work(count - 1) on a thread each and returns when all have ended; `work` must not
// throw. Calls begin only after all threads have started: calls that wait for each other would wait forever
// for a thread that the system refuses. In that case no call is made, and std::system_error is thrown.
inline void run_on_threads(int count, const std::function<void(int)>& work) {
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
