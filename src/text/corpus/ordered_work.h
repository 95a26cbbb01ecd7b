// Parallel map with ordered results, which do not depend on the number of threads.
//
//   one thread produces -> several work -> the caller consumes, in order
#pragma once

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/threads.h"

namespace twobw::corpus {

template <typename Task, typename Result>
class OrderedWork {
 public:
  struct Steps {
    std::function<std::optional<Task>()> produce;   // nothing: end
    std::function<std::size_t(const Task&)> weigh;  // in bytes
    std::function<Result(Task)> work;
    std::function<void(Result)> consume;
  };

  // Holds tasks and results of at most `budget` bytes of tasks at a time, or a single one.
  OrderedWork(Steps steps, int workers, std::size_t budget)
      : steps_(std::move(steps)), workers_(workers), budget_(budget) {}

  // Rethrows the exception of the earliest task that failed, after consuming all tasks before it.
  void run() {
    std::vector<std::jthread> threads;
    try {
      threads.emplace_back([this] { produce_all(); });
      for (int i = 0; i < workers_; ++i) threads.emplace_back([this] { work_all(); });
      consume_all();
    } catch (...) {
      stop();
      throw;
    }
    stop();
  }

 private:
  struct Ticket {
    std::size_t weight = 0;
    std::future<Result> result;
  };

  static void name_thread(const char* name) { pthread_setname_np(pthread_self(), name); }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    todo_.close();
  }

  // Blocks until the budget allows it. Returns false after stop().
  bool reserve(std::size_t weight) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopped_ || held_ == 0 || held_ + weight <= budget_; });
    held_ += weight;
    return !stopped_;
  }

  void produce_all() {
    name_thread("prepare-read");
    try {
      while (std::optional<Task> task = steps_.produce()) {
        const std::size_t weight = steps_.weigh(*task);
        if (!reserve(weight)) return;
        std::packaged_task<Result()> work(
            [this, task = std::move(*task)]() mutable { return steps_.work(std::move(task)); });
        order_.put({weight, work.get_future()});
        todo_.put(std::move(work));
      }
    } catch (...) {
      std::promise<Result> failed;
      failed.set_exception(std::current_exception());
      order_.put({0, failed.get_future()});
    }
    order_.close();
    todo_.close();
  }

  void work_all() {
    name_thread("prepare-encode");
    while (std::optional<std::packaged_task<Result()>> work = todo_.take()) {
      if (!stopped_) (*work)();
    }
  }

  void consume_all() {
    while (std::optional<Ticket> ticket = order_.take()) {
      steps_.consume(ticket->result.get());
      {
        const std::lock_guard lock(mutex_);
        held_ -= ticket->weight;
      }
      changed_.notify_all();
    }
  }

  Steps steps_;
  int workers_;
  std::size_t budget_, held_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  Inbox<Ticket> order_;
  Inbox<std::packaged_task<Result()>> todo_;
  std::atomic<bool> stopped_ = false;
};

}  // namespace twobw::corpus
