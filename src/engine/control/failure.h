// Why a run of several processes ends: one sentence, and whether it is that the input is wrong.
#pragma once

#include <concepts>
#include <string>
#include <utility>

#include "core/base/error.h"

namespace twobw::control {

struct Failure {
  template <std::convertible_to<std::string> Text>
  Failure(Text&& reason, bool wrong_input = false)  // NOLINT: a text alone is a run that failed
      : reason(std::forward<Text>(reason)), wrong_input(wrong_input) {}

  // LibTorch appends a stack trace from the second line on; it stays here.
  static Failure of(const std::exception& error) {
    const std::string what = error.what();
    return {what.substr(0, what.find('\n')), dynamic_cast<const InputError*>(&error) != nullptr};
  }

  // Throws an InputError or a RunError: the exit code is that of the process that failed.
  [[noreturn]] void raise() const {
    if (wrong_input) throw InputError(reason);
    throw RunError(reason);
  }

  std::string reason;
  bool wrong_input;
};

}  // namespace twobw::control
