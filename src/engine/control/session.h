// State shared by a control's callers and its thread: outgoing frames, handlers, events; and the interface of
// a rank's role in the star.
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
#include "engine/control/protocol.h"

namespace twobw::control {

class Session {
 public:
  Session(int rank, int size);

  int rank() const { return rank_; }
  int size() const { return size_; }

  // For the callers.
  void on(Topic topic, std::function<void(int, std::string_view)> handler);
  void on_abort(std::function<void(const Failure&)> handler);
  void start();
  void post(Frame frame);
  void stop();
  void wait_begun();     // raises the failure if the run ends before all ranks have joined
  void wait_all_left();  // raises the failure after an abort
  std::vector<Liveness> liveness() const;

  // For the control's thread.
  Waker& waker() { return waker_; }
  // Returns the posted frames; before that, delivers messages held back until start().
  std::vector<Frame> take();
  bool stopping() const;
  void deliver(int from, Topic topic, std::string body);
  void begin();
  void all_left();
  // The first failure counts; returns false if there is one, or the run has ended well.
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
  struct Heartbeat {
    Clock::time_point heard;
    bool left = false;
  };
  void dispatch(const Held& message);
  void report_abort();

  const int rank_, size_;
  Waker waker_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Frame> posted_;
  std::vector<Heartbeat> heartbeats_;
  std::optional<Failure> failure_;
  bool started_ = false, stopping_ = false, begun_ = false, all_left_ = false;
  // Set before start(), then used by the control's thread alone.
  std::array<std::function<void(int, std::string_view)>, static_cast<std::size_t>(Topic::Other) + 1>
      handlers_;
  std::vector<std::function<void(const Failure&)>> on_abort_;
  std::deque<Held> held_;
  bool listening_ = false, reported_ = false;
};

// A rank's role in the star, on the control's thread: coordinator (rank 0) or client.
class Peer {
 public:
  virtual ~Peer() = default;
  // Handles a frame that this rank has posted.
  virtual void post_local(Frame frame) = 0;
  // Descriptors for poll(2).
  virtual std::vector<pollfd> polled() = 0;
  // Handles the events of the descriptors from polled(), in the same order.
  virtual void serve(const std::vector<pollfd>& polled) = 0;
  // Timed work, after all arrived bytes are read. Returns when it must be called again.
  virtual Clock::time_point tick(Clock::time_point now) = 0;
  // The last call: returns the open connections.
  virtual std::vector<Connection*> finish() = 0;
};

}  // namespace twobw::control
