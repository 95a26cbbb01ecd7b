// Threads as ranks, for tests of messages between processes.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "engine/control/connection.h"
#include "engine/control/rendezvous.h"

namespace twobw::control {

inline constexpr const char* kToken = "a token of the tests";

inline Rendezvous rendezvous_at(const Endpoint& endpoint, int rank, int size) {
  return {.endpoint = endpoint, .token = kToken, .rank = rank, .size = size, .build = "build 1"};
}

// Rank 0 in a thread of its own: connect() returns only when all are there.
class RankZero {
 public:
  explicit RankZero(int size, const Options& options = {}) : listener_({}), endpoint_(listener_.endpoint()) {
    thread_ = std::thread([this, size, options] {
      try {
        control_ = connect(rendezvous_at(endpoint_, 0, size), options, std::move(listener_));
      } catch (const RunError& error) {
        error_ = error.what();
      }
    });
  }
  ~RankZero() { wait(); }

  const Endpoint& endpoint() const { return endpoint_; }
  std::unique_ptr<Control> take() {
    wait();
    EXPECT_EQ(error_, "");
    return std::move(control_);
  }
  // The error of connect(); empty if it succeeded.
  std::string error() {
    wait();
    return error_;
  }

 private:
  void wait() {
    if (thread_.joinable()) thread_.join();
  }
  Listener listener_;
  Endpoint endpoint_;
  std::unique_ptr<Control> control_;
  std::string error_;
  std::thread thread_;
};

inline std::vector<std::unique_ptr<Control>> controls_over_tcp(int size, const Options& options = {}) {
  RankZero zero(size, options);
  std::vector<std::unique_ptr<Control>> controls(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  // The last first: ranks may come in any order.
  for (int rank = size - 1; rank > 0; --rank) {
    threads.emplace_back([&, rank] {
      controls[static_cast<std::size_t>(rank)] = connect(rendezvous_at(zero.endpoint(), rank, size), options);
    });
  }
  for (std::thread& thread : threads) thread.join();
  controls[0] = zero.take();
  return controls;
}

// The next frame of a kind; skips those before it.
inline Frame wait_for_kind(Connection& connection, Frame::Kind kind) {
  bool open = true;
  while (true) {
    while (auto frame = connection.next_frame()) {
      if (frame->kind == kind) return *frame;
    }
    pollfd polled = connection.polled();
    if (!open || poll(&polled, 1, 20'000) != 1) break;
    open = connection.write();
    open = connection.read() && open;
  }
  ADD_FAILURE() << "no frame of kind " << static_cast<int>(kind);
  return {};
}

// The messages that a rank has received.
class Log {
 public:
  void add(std::string line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(std::move(line));
    changed_.notify_all();
  }
  // Waits until there are as many.
  std::vector<std::string> wait(std::size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(20), [&] { return lines_.size() >= count; }));
    return lines_;
  }
  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
};

// All ranks, with logs of their messages of Topic::Other, as "from: body", and of aborts. Does not leave.
struct RankSet {
  explicit RankSet(std::vector<std::unique_ptr<Control>> given) : logs(given.size()), aborts(given.size()) {
    controls = std::move(given);
    for (std::size_t rank = 0; rank < controls.size(); ++rank) {
      controls[rank]->on(Topic::Other, [log = &logs[rank]](int from, std::string_view body) {
        log->add(std::to_string(from) + ": " + std::string(body));
      });
      controls[rank]->on_abort([log = &aborts[rank]](const Failure& failure) { log->add(failure.reason); });
      controls[rank]->start();
    }
  }

  Control& operator[](std::size_t rank) { return *controls[rank]; }
  // All at once; what each throws, or "".
  std::vector<std::string> leave() {
    std::vector<std::string> errors(controls.size());
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < controls.size(); ++rank) {
      threads.emplace_back([&, rank] {
        try {
          controls[rank]->leave();
        } catch (const RunError& error) {
          errors[rank] = error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return errors;
  }
  void expect_one_reason(const std::string& reason) {
    for (std::size_t rank = 0; rank < controls.size(); ++rank) {
      EXPECT_EQ(aborts[rank].wait(1), std::vector<std::string>{reason}) << rank;
      EXPECT_EQ(error_of([&] { controls[rank]->leave(); }), reason) << rank;
    }
  }
  static std::string error_of(const std::function<void()>& call) {
    try {
      call();
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  }

  std::vector<Log> logs, aborts;
  std::vector<std::unique_ptr<Control>> controls;
};

}  // namespace twobw::control
