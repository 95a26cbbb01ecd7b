// What the callers of a control and its thread share: frames to go, handlers, what has happened.
#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/control/connection.h"
#include "engine/control/control.h"
#include "engine/control/frame.h"

namespace twobw::control {

class Session {
 public:
  Session(int rank, int size);

  int rank() const { return rank_; }
  int size() const { return size_; }

  // For callers.
  void on(Topic topic, std::function<void(int, std::string_view)> handler);
  void on_abort(std::function<void(const Failure&)> handler);
  void start();
  void post(Frame frame);
  void stop();
  void wait_begun();     // raises the failure where it ends before all ranks are there
  void wait_all_left();  // and after an abort
  std::vector<Life> lives() const;

  // For the control's thread.
  Waker& waker() { return waker_; }
  // Frames that callers have posted; first handlers hear what has waited for start().
  std::vector<Frame> take();
  bool stopping() const;
  void deliver(int from, Topic topic, std::string body);
  void begin();
  void all_left();
  // The first failure stays; false: there is one, or the run has ended well.
  bool end(const Failure& failure);
  bool over() const;
  std::optional<Failure> failure() const;
  void heard(int rank, Clock::time_point when);
  void has_left(int rank);

 private:
  struct Held {
    int from;
    Topic topic;
    std::string body;
  };
  struct Sign {
    Clock::time_point heard;
    bool left = false;
  };
  void hand_on(const Held& message);
  void tell_abort();

  const int rank_, size_;
  Waker waker_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Frame> posted_;
  std::vector<Sign> signs_;
  std::optional<Failure> failure_;
  bool started_ = false, stopping_ = false, begun_ = false, all_left_ = false;
  // Set before start(), then of the control's thread alone.
  std::array<std::function<void(int, std::string_view)>, static_cast<std::size_t>(Topic::Other) + 1>
      handlers_;
  std::vector<std::function<void(const Failure&)>> on_abort_;
  std::deque<Held> held_;
  bool hears_ = false, told_ = false;
};

}  // namespace twobw::control
