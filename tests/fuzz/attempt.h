// One input, given to its target.
#pragma once

#include <string>
#include <string_view>

#include "tests/fuzz/target.h"

namespace twobw::fuzz {

struct Attempt {
  bool accepted = false;
  std::string sentence;  // with which it was refused
  std::string failure;   // what should not have happened; empty: nothing
};

// A failure is an exception that is no InputError, a sentence that is none, and more memory than 64 MiB and
// 64 times the size of the input. (A crash ends the program.)
Attempt attempt(const Target& target, std::string_view input);

}  // namespace twobw::fuzz
