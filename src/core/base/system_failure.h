#pragma once

#include <exception>
#include <optional>
#include <string>

namespace twobw {

struct SystemFailure {
  std::string sentence;      // with the system's reason
  bool wrong_input = false;  // a path or a limit that the user can change
};

// Memory, threads and paths that the system refuses; nothing for any other exception.
std::optional<SystemFailure> system_failure(const std::exception& error);

// The sentence of a system failure, else the exception's text without the stack trace that LibTorch appends.
std::string describe_failure(const std::exception& error);

}  // namespace twobw
