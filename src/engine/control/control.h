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
#include <thread>
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

// Kinds of messages. Mail: outside of pipelines (mail.h); the others but Store: of a pipeline.
enum class Topic : std::uint8_t { Mail, Gate, Norms, Update, Evaluation, Store, Other };

struct Liveness {
  int rank;
  double silent_s;  // since the last heartbeat
  bool has_left;
};

class Peer;
class Session;

// One rank's end of the channel, over connections that a thread of its own polls. Thread-safe, but for the
// handlers, which are set before start() and called on that thread.
class Control {
 public:
  // `make` chooses the rank's role in the star (session.h).
  using MakePeer = std::function<std::unique_ptr<Peer>(Session& session)>;
  Control(int rank, int size, const Options& options, const MakePeer& make);
  // Sends queued frames. Without leave() or an abort before it the others report this rank as dead.
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  int rank() const;
  int size() const;

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

 private:
  void post(int to, Topic topic, std::string body);
  void run();

  const Options options_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Peer> peer_;
  std::thread thread_;
};

// "process 3", "processes 1, 3-5"; `ranks` ascend. Users know ranks as processes.
std::string describe_ranks(const std::vector<int>& ranks);

}  // namespace twobw::control
