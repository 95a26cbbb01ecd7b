// Exceptions of the system and of libraries as sentences; unhandled ones (for instance on threads of
// libraries) end the run with a report and exit code 1 instead of a SIGABRT.
#pragma once

#include <exception>
#include <functional>
#include <list>
#include <optional>
#include <string>

namespace twobw {

struct SystemFailure {
  std::string sentence;      // with the system's reason
  bool wrong_input = false;  // a path or a limit that the user can change
};

// Memory, threads and paths that the system refuses; null for any other exception.
std::optional<SystemFailure> system_failure(const std::exception& error);

// The sentence of a system failure, else the exception's text without the stack trace that LibTorch appends.
std::string describe_failure(const std::exception& error);

// The message of an exception from LibTorch or Gloo without its source location ("[.../pair.cc:547] ",
// "[enforce fail at .../listener.cc:63] false. ") and stack trace.
std::string message_of(const std::exception& error);

// Takes effect for all threads. `prefix`: between "twobw: " and the sentence.
void report_unhandled_exceptions(std::string prefix);

// Whether a thread was lost to an unhandled exception. It keeps its locks and never ends: do not join it.
bool thread_is_lost();

// While it exists, an unhandled exception calls `end` with a sentence, on another thread. `end` makes the
// program end with its report; if that takes too long, only the sentence is printed.
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
