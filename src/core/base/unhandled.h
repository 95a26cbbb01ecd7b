// Exceptions that nobody catches, such as those on the threads of libraries: the run ends with a report and
// exit code 1, instead of a SIGABRT.
#pragma once

#include <exception>
#include <functional>
#include <list>
#include <string>

namespace twobw {

// The sentence of an exception from LibTorch or Gloo, without the place in their source ("[.../pair.cc:547]
// ",
// "[enforce fail at .../listener.cc:63] false. ") and the stack trace from the second line on.
std::string message_of(const std::exception& error);

// From now on, for all threads. `prefix`: between "twobw: " and the sentence.
void report_unhandled_exceptions(std::string prefix);

// Whether a thread was lost to such an exception. It keeps its locks and never ends: do not join it.
bool thread_is_lost();

// While it lives, an unhandled exception calls `end` with a sentence, on another thread. `end` makes the
// program end by itself, with its report; if that takes too long, the sentence is all that is printed.
class UnhandledHook {
 public:
  using End = std::function<void(const std::string& reason)>;
  explicit UnhandledHook(End end);
  ~UnhandledHook();
  UnhandledHook(const UnhandledHook&) = delete;
  UnhandledHook& operator=(const UnhandledHook&) = delete;

 private:
  std::list<End>::iterator place_;
};

}  // namespace twobw
