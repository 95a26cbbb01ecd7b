#include "core/base/error.h"

#include <cstdio>
#include <cstdlib>

namespace twobw {

void assertion_failed(const char* condition, const char* file, int line, const std::string& state) {
  fmt::print(stderr, "twobw: internal error: {} is false at {}:{}: {}\n", condition, file, line, state);
  std::abort();
}

}  // namespace twobw
