// Words from one process to another outside of pipelines: each waits at the other end until it is taken.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "control/control.h"

namespace twobw::transport {

class Mail {
 public:
  // Before control.start(): takes the topic. The control outlives it.
  Mail(control::Control& control, control::Topic topic);

  // Never block.
  void send(int to, const std::string& body);
  void send_to_others(const std::string& body);
  // To the others, before the run is aborted: the input is wrong, and why.
  void refuse_input(const std::string& why);
  // The next word of that process, in the order of its sends; waits for it. Throws InputError where that
  // process has refused the input, RunError with the reason once the run is aborted otherwise.
  std::string receive(int from);
  // The same without waiting; a refusal is no word.
  std::optional<std::string> poll(int from);
  // The run is aborted: ends the waits.
  void end(const std::string& reason);

 private:
  struct Word;
  struct Box;
  std::optional<Word> take(int from);

  control::Control& control_;
  control::Topic topic_;
  std::shared_ptr<Box> box_;
};

}  // namespace twobw::transport
