// Parallel map with ordered results, which do not depend on the number of threads.
//
//   one thread produces -> several work -> the caller consumes, in order
#pragma once

#include <pthread.h>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

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
    std::optional<Task> task;
    std::optional<Result> result;
    std::exception_ptr error;
    std::size_t weight = 0;
    bool done = false;
  };

  static void name_thread(const char* name) { pthread_setname_np(pthread_self(), name); }

  void stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }

  void produce_all() {
    name_thread("prepare-read");
    for (bool more = true; more;) {
      auto ticket = std::make_shared<Ticket>();
      try {
        ticket->task = steps_.produce();
        more = ticket->task.has_value();
        if (more) ticket->weight = steps_.weigh(*ticket->task);
      } catch (...) {
        ticket->error = std::current_exception();
        ticket->done = true;
        more = false;
      }
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopped_ || held_ == 0 || held_ + ticket->weight <= budget_; });
      if (stopped_) return;
      held_ += ticket->weight;
      if (ticket->task) todo_.push_back(ticket);
      if (ticket->task || ticket->error) order_.push_back(std::move(ticket));
      all_produced_ = !more;
      changed_.notify_all();
    }
  }

  void work_all() {
    name_thread("prepare-encode");
    for (;;) {
      std::shared_ptr<Ticket> ticket;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stopped_ || !todo_.empty() || all_produced_; });
        if (stopped_ || todo_.empty()) return;
        ticket = std::move(todo_.front());
        todo_.pop_front();
      }
      try {
        ticket->result = steps_.work(*std::exchange(ticket->task, std::nullopt));
      } catch (...) {
        ticket->error = std::current_exception();
      }
      const std::lock_guard lock(mutex_);
      ticket->done = true;
      changed_.notify_all();
    }
  }

  void consume_all() {
    for (;;) {
      std::shared_ptr<Ticket> ticket;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return order_.empty() ? all_produced_ : order_.front()->done; });
        if (order_.empty()) return;
        ticket = std::move(order_.front());
        order_.pop_front();
      }
      if (ticket->error) std::rethrow_exception(ticket->error);
      steps_.consume(*std::exchange(ticket->result, std::nullopt));
      const std::lock_guard lock(mutex_);
      held_ -= ticket->weight;
      changed_.notify_all();
    }
  }

  Steps steps_;
  int workers_;
  std::size_t budget_, held_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Ticket>> order_, todo_;
  bool all_produced_ = false, stopped_ = false;
};

}  // namespace twobw::corpus
