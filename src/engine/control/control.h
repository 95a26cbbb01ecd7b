// Control channel between the processes of a run: small messages, heartbeats, coordinated abort.
//
// Ranks form a star in which rank 0 relays. Nothing blocks but leave(); handlers run on the control's thread.
#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "engine/control/connection.h"
#include "engine/control/protocol.h"

namespace twobw::control {

// Times in seconds, and limits.
struct Options {
  double join_timeout_s = 300;      // until all ranks have joined
  double heartbeat_s = 2;           // between two heartbeats
  double heartbeat_timeout_s = 30;  // without a heartbeat before a rank counts as dead
  double handshake_s = 5;           // for a new connection to authenticate
  int pending_peers = 64;           // connections that have not authenticated; one more evicts the oldest
  double verdict_s = 2;             // for rank 0 to choose between several reasons to abort
  double farewell_s = 1;            // at the end, for messages still in flight
};

class Peer;

// One rank's end of the channel, over connections that a thread of its own polls. Thread-safe, but for the
// handlers, which are set before start() and called on that thread.
class Control {
 public:
  // `make` chooses the rank's role in the star.
  using MakePeer = std::function<std::unique_ptr<Peer>(Control& control)>;
  Control(int rank, int size, const Options& options, const MakePeer& make);
  // Sends queued frames. Without leave() or an abort before it the others report this rank as dead.
  ~Control();

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Before start(). Handles one message at a time and must not block. An exception aborts the run. A topic
  // has one handler; a message without one aborts the run.
  void on(Topic topic, std::function<void(int from, std::string_view body)> handler);
  // Before start(); there may be several handlers. Each is called once, with rank and reason, when any rank
  // aborts, dies, is silent past the deadline or leaves too early. The failure is the same on all ranks that
  // are reached.
  void on_abort(std::function<void(const Failure& failure)> handler);
  // Starts the handlers, with the messages that have arrived before.
  void start();

  // Never block. Messages from one rank to another arrive in order; a rank may send to itself. After an abort
  // nothing is sent. Throws RunError for a body beyond kMaxBody (protocol.h).
  void send(int to, Topic topic, std::string body);
  void send_to_others(Topic topic, std::string body);
  // Aborts the run on all ranks; the first failure counts.
  void abort(const Failure& failure);
  // The liveness of all other ranks.
  std::vector<Liveness> liveness() const;

  // Blocks until all ranks have joined; throws RunError if one does not.
  void wait_begun();
  // Called when the run has ended well here. Blocks until all ranks have left; raises the failure after an
  // abort. Not from a handler.
  void leave();

  // For the rank's role, on the control's thread.
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
    Clock::time_point heard = Clock::now();
    bool left = false;
  };
  void post(int to, Topic topic, std::string body);
  void post(Frame frame);
  void run();
  // Delivers the messages held back until start(), then the posted frames. False: the control is stopping.
  bool take_posted();
  void dispatch(const Held& message);
  void report_abort();

  const int rank_, size_;
  const Options options_;
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
  std::unique_ptr<Peer> peer_;
  std::thread thread_;
};

// "process 3", "processes 1, 3-5"; `ranks` ascend. Users know ranks as processes.
std::string describe_ranks(const std::vector<int>& ranks);

}  // namespace twobw::control
