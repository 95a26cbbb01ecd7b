// Sentences of errors.
#pragma once

#include <string>

#include "core/base/error.h"

namespace twobw {

// The sentence of the `Error` that `action` throws, or `otherwise`.
template <typename Error = InputError, typename Action>
std::string error_of(Action action, const std::string& otherwise = "") {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return otherwise;
}

// The sentence that `action` is refused with.
template <typename Action>
std::string refusal_of(Action action) {
  return error_of(action, "not refused");
}

}  // namespace twobw
