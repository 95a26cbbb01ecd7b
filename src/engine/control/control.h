// Small messages between the processes of a run, signs of life, and an end that all learn of.
//
// Ranks form a star: rank 0 relays. Nothing here waits but leave(); handlers run on a thread of the control's
// own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/control/failure.h"

namespace twobw::control {

enum class Topic : std::uint8_t { Agreement, Gate, Norms, Update, Evaluation, Store, Plan, Other };

// How long ago the last sign of life of a peer was.
struct Life {
  int rank;
  double silent_s;
  bool has_left;
};

class Control {
 public:
  virtual ~Control() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Before start(): called on a thread of the control's own, one message after the other; must not block.
  // What it throws aborts the run. A topic has one handler; a message without one aborts the run.
  virtual void on(Topic topic, std::function<void(int from, std::string_view body)> handler) = 0;
  // Before start(): told once, with who and why, when any rank aborts, dies, falls silent past the deadline
  // or leaves too early. There may be several. It is the same on all ranks that are reached.
  virtual void on_abort(std::function<void(const Failure& failure)> handler) = 0;
  // Handlers hear what arrives from now on, and first what arrived before.
  virtual void start() = 0;

  // Never block. Messages from one rank to another arrive in order. To oneself is allowed. After an abort
  // nothing is sent. Throws RunError for a body beyond kMaxBody (frame.h).
  virtual void send(int to, Topic topic, std::string body) = 0;
  virtual void send_to_others(Topic topic, std::string body) = 0;
  // Tells all; from any thread; the first failure stays.
  virtual void abort(const Failure& failure) = 0;
  // Of all other ranks.
  virtual std::vector<Life> lives() const = 0;
  // The run has ended well here; returns when all have left, raises the failure after an abort. Not from
  // a handler.
  virtual void leave() = 0;
};

// Threads as ranks, for tests: all in one process, joined by pairs of sockets that have no address.
std::vector<std::unique_ptr<Control>> controls_in_memory(int size);

}  // namespace twobw::control
