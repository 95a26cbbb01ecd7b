// Two kinds of failure. Wrong input is an InputError: one sentence with the key, its value and the allowed
// values; the program prints it and exits with code 2. A run that cannot continue is a RunError (code 1).
// TWOBW_ASSERT catches bugs: it prints the state and aborts.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>

namespace twobw {

class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class RunError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <typename... Args>
[[noreturn]] void fail_input(fmt::format_string<Args...> format, Args&&... args) {
  throw InputError(fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
[[noreturn]] void fail_run(fmt::format_string<Args...> format, Args&&... args) {
  throw RunError(fmt::format(format, std::forward<Args>(args)...));
}

[[noreturn, gnu::cold]] inline void assertion_failed(const char* condition, const char* file, int line,
                                                     const std::string& state) {
  fmt::print(stderr, "twobw: internal error: {} is false at {}:{}: {}\n", condition, file, line, state);
  std::abort();
}

}  // namespace twobw

// TWOBW_ASSERT(condition, "format", args...): always on, in release builds too.
#define TWOBW_ASSERT(condition, ...)                                                         \
  do {                                                                                       \
    if (!(condition)) [[unlikely]]                                                           \
      ::twobw::assertion_failed(#condition, __FILE__, __LINE__, ::fmt::format(__VA_ARGS__)); \
  } while (false)
