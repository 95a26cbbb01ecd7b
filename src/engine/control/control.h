// Control channel between the processes of a run: small messages, heartbeats, coordinated abort.
//
// Ranks form a star in which rank 0 relays. Nothing blocks but leave(); handlers run on the control's thread.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace twobw::control {

// Why a run of several processes ends: one sentence, and whether the user's input is wrong.
struct Failure {
  template <std::convertible_to<std::string> Text>
  Failure(Text&& reason, bool wrong_input = false)  // NOLINT: a text alone is a failed run
      : reason(std::forward<Text>(reason)), wrong_input(wrong_input) {}

  // The first line of the error: LibTorch appends a stack trace.
  static Failure of(const std::exception& error) {
    const std::string what = error.what();
    return {what.substr(0, what.find('\n')), dynamic_cast<const InputError*>(&error) != nullptr};
  }

  // Throws an InputError or a RunError, so that the exit code is that of the process that failed.
  [[noreturn]] void raise() const {
    if (wrong_input) throw InputError(reason);
    throw RunError(reason);
  }

  std::string reason;
  bool wrong_input;
};

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

enum class Topic : std::uint8_t { Agreement, Gate, Norms, Update, Evaluation, Store, Plan, Other };

struct Liveness {
  int rank;
  double silent_s;  // since the last heartbeat
  bool has_left;
};

class Control {
 public:
  virtual ~Control() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Before start(). The handler is called on the control's thread, one message at a time, and must not block.
  // An exception aborts the run. A topic has one handler; a message without one aborts the run.
  virtual void on(Topic topic, std::function<void(int from, std::string_view body)> handler) = 0;
  // Before start(); there may be several handlers. Each is called once, with rank and reason, when any rank
  // aborts, dies, is silent past the deadline or leaves too early. The failure is the same on all ranks that
  // are reached.
  virtual void on_abort(std::function<void(const Failure& failure)> handler) = 0;
  // Starts the handlers, with the messages that have arrived before.
  virtual void start() = 0;

  // Never block. Messages from one rank to another arrive in order; a rank may send to itself. After an abort
  // nothing is sent. Throws RunError for a body beyond kMaxBody (protocol.h).
  virtual void send(int to, Topic topic, std::string body) = 0;
  virtual void send_to_others(Topic topic, std::string body) = 0;
  // Aborts the run on all ranks; the first failure counts. Thread-safe.
  virtual void abort(const Failure& failure) = 0;
  // Of all other ranks.
  virtual std::vector<Liveness> liveness() const = 0;
  // Called when the run has ended well here. Blocks until all ranks have left; raises the failure after an
  // abort. Not from a handler.
  virtual void leave() = 0;
};

// "process 3", "processes 1, 3-5"; `ranks` ascend. Users know ranks as processes.
std::string describe_ranks(const std::vector<int>& ranks);

}  // namespace twobw::control
