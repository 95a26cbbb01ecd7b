// The processes of a run, as one of them sees them: small messages (engine/control/control.h), and wires for
// tensors. They serve one pipeline after another, which all processes make in the same order; a message finds
// the pipeline it is meant for also where that is made later than elsewhere.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/unhandled.h"
#include "engine/control/control.h"
#include "engine/transport/mail.h"
#include "engine/transport/wire.h"

namespace twobw::transport {

// None waits behind another. `exchange`: sums over replicas, and the copies' parts of ties. `answers`: the
// primaries' parts, which go the other way: by one wire they would take turns, for the word that there is
// room for one would wait behind the other.
struct Wires {
  std::unique_ptr<Wire> activations, gradients, exchange, answers = nullptr;
  std::unique_ptr<Wire> state = nullptr;  // what is saved, on its way to rank 0; none where nothing is
  std::string open_ports = {};            // why other programs can still connect to them; empty: they cannot
};

// Tags of a wire, from its first on, that a pipeline may use.
constexpr int kTagsOfPipeline = 1 << 16;

class Processes {
 public:
  using Topic = control::Topic;

  // Before control.start(); takes the topics Gate, Norms, Update, Evaluation, Other and Plan.
  explicit Processes(std::unique_ptr<control::Control> control);
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  int rank() const { return control_->rank(); }
  int size() const { return control_->size(); }
  control::Control& control() { return *control_; }
  const control::Control& control() const { return *control_; }

  // Once, before the first pipeline. They are to be kept until control().leave() has returned: another
  // process may still receive.
  void set_wires(Wires wires);
  const Wires& wires() const { return wires_; }

  // Between processes, outside of pipelines.
  Mail& mail() { return mail_; }

  // What a pipeline does with messages, and where the run is aborted: here, elsewhere, or before it came.
  // Called on a thread of the control's own, one at a time; must not block.
  struct Receiver {
    std::function<void(Topic topic, int from, std::string_view body)> on_message;
    std::function<void(const control::Failure& failure)> on_abort;
  };
  // Gives the number of the pipeline, the same in all processes. Hands over what came early.
  int attach(Receiver receiver);
  void detach();  // on return nothing is handed over any more

  // Between those who attached as the same number.
  void send(int to, Topic topic, std::string_view body);
  void send_to_others(Topic topic, std::string_view body);

  // Ends the run in all processes, and the waits for wires here. From any thread but a receiver's.
  void abort(const control::Failure& failure);
  // Why it was; nothing: it was not.
  std::optional<control::Failure> failure() const;

 private:
  struct Message {
    int pipeline = 0;
    Topic topic;
    int from = 0;
    std::string body;
  };
  void handle(Topic topic, int from, std::string_view bytes);
  void end_waits();
  void handle_abort(const control::Failure& failure);
  std::string addressed(std::string_view body) const;

  mutable std::mutex mutex_;  // also while a receiver is told
  Wires wires_;
  std::optional<control::Failure> failure_;
  int pipelines_ = 0;  // attached so far
  std::optional<Receiver> receiver_;
  std::deque<Message> early_;
  std::unique_ptr<control::Control> control_;  // after these, so that its thread ends first
  Mail mail_;
  const UnhandledHook unhandled_{[this](const std::string& reason) { abort(reason); }};
};

}  // namespace twobw::transport
