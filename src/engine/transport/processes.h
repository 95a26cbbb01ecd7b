// The processes of a run, as seen by one of them: control messages, mail outside of pipelines, and wires for
// tensors. They serve one pipeline after another, created in the same order by all processes; a message
// reaches its pipeline even if that is created later here than at the sender.
#pragma once

#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/failures.h"
#include "engine/control/control.h"
#include "engine/control/mail.h"
#include "engine/transport/wait_hub.h"
#include "engine/transport/wire.h"

namespace twobw::transport {

// Independent channels: traffic on one never blocks another. `exchange`: sums over replicas, and the copies'
// parts of ties. `answers`: the primaries' parts, in the opposite direction: on one wire the two would take
// turns, because the receive of one would be posted behind the other.
struct Wires {
  std::unique_ptr<Wire> activations, gradients, exchange, answers = nullptr;
  std::unique_ptr<Wire> state = nullptr;  // checkpoints on their way to rank 0; null if nothing is saved
  std::string open_ports = {};            // why other programs can still connect; empty: they cannot
};

// Tags of a wire that one pipeline may use, starting at its first.
constexpr int kTagsOfPipeline = 1 << 16;

class Processes {
 public:
  using Topic = control::Topic;

  // Before control.start(): handles all topics but Store.
  explicit Processes(std::unique_ptr<control::Control> control);
  ~Processes();

  int rank() const { return control_->rank(); }
  int size() const { return control_->size(); }
  control::Control& control() { return *control_; }
  const control::Control& control() const { return *control_; }

  // Once, before the first pipeline. Wires live until control().leave() has returned: another process may
  // still receive.
  void set_wires(Wires wires);
  const Wires& wires() const { return wires_; }

  control::Mail& mail() { return mail_; }

  // A pipeline's handlers of messages and of an abort, here, elsewhere, or before it was attached. Called on
  // the control's thread, one at a time; must not block.
  struct Receiver {
    std::function<void(Topic topic, int from, std::string_view body)> on_message;
    std::function<void(const control::Failure& failure)> on_abort;
  };
  // Returns the pipeline's number, the same in all processes. Delivers messages that arrived early.
  int attach(Receiver receiver);
  void detach();  // on return no handler is called again

  // Between processes that attached a pipeline of the same number.
  void send(int to, Topic topic, std::string_view body);
  void send_to_others(Topic topic, std::string_view body);

  // Ends the run in all processes, and the waits on wires here. From any thread but a receiver's.
  void abort(const control::Failure& failure);
  // Why the run was aborted; null if it was not.
  std::optional<control::Failure> failure() const;

 private:
  struct EarlyMessage {
    int pipeline = 0;
    Topic topic;
    int from = 0;
    std::string body;
  };
  void handle(Topic topic, int from, std::string_view bytes);
  void end_waits();
  void handle_abort(const control::Failure& failure);
  std::string addressed(std::string_view body) const;

  mutable std::mutex mutex_;  // also held while a receiver is called
  Wires wires_;
  std::optional<control::Failure> failure_;
  int pipelines_ = 0;  // attached so far
  std::optional<Receiver> receiver_;
  std::deque<EarlyMessage> early_;
  std::unique_ptr<control::Control> control_;  // after these, so that its thread ends first
  control::Mail mail_;
  const UnhandledHook unhandled_{[this](const std::string& reason) { abort(reason); }};
};

// Does the work. An exception ends the run in all processes and is rethrown; if a wait was ended by a failure
// elsewhere, that failure is raised. `processes` may be null: there is only this one.
template <typename Work>
auto abort_on_failure(Processes* processes, Work work) {
  try {
    return work();
  } catch (const Cancelled& cancelled) {
    if (processes == nullptr) throw;
    processes->abort(cancelled.what());  // no effect unless nobody has aborted
    processes->failure()->raise();
  } catch (const std::exception& error) {
    if (processes != nullptr) processes->abort(control::Failure::of(error));
    throw;
  }
}

}  // namespace twobw::transport
