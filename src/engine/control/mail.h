// Messages between processes outside of pipelines, queued at the receiver.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "engine/control/control.h"

namespace twobw::control {

// Thread-safe; one thread receives from a rank.
class Mail {
 public:
  // Before control.start(): handles Topic::Mail. The control outlives it.
  explicit Mail(Control& control);

  // Never block.
  void send(int to, std::string body);
  void send_to_others(std::string body);
  // The next message of a rank, in the order of its sends. Blocks until it has arrived; raises the failure
  // after an abort.
  std::string receive(int from);
  // Null if none arrives before `until`.
  std::optional<std::string> receive(int from, std::chrono::steady_clock::time_point until);
  // Null if none has arrived. Does not raise.
  std::optional<std::string> poll(int from);
  // Ends all waits by this failure, unless an earlier one has.
  void end(const Failure& failure);

 private:
  struct Box;

  Control& control_;
  std::shared_ptr<Box> box_;
};

}  // namespace twobw::control
