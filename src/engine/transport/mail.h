// Words from one process to another outside of pipelines: each waits at the other end until it is taken.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "engine/control/control.h"

namespace twobw::transport {

class Mail {
 public:
  // Before control.start(): takes the topic. The control outlives it.
  Mail(control::Control& control, control::Topic topic);

  // Never block.
  void send(int to, std::string body);
  void send_to_others(std::string body);
  // The next word of that process, in the order of its sends; waits for it. Raises the failure once the
  // run is aborted.
  std::string receive(int from);
  // The same without waiting.
  std::optional<std::string> poll(int from);
  // The run is aborted: ends the waits.
  void end(const control::Failure& failure);

 private:
  struct Box;
  std::optional<std::string> take(int from);

  control::Control& control_;
  control::Topic topic_;
  std::shared_ptr<Box> box_;
};

}  // namespace twobw::transport
