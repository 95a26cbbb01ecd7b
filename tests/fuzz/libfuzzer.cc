// The entry for libFuzzer, of the target that the build names.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace twobw::fuzz;
  static const Target& target = find_target(TWOBW_FUZZ_TARGET);
  const Attempt made = attempt(target, {reinterpret_cast<const char*>(data), size});
  if (!made.failure.empty()) {
    std::fputs((made.failure + "\n").c_str(), stderr);
    std::abort();
  }
  return 0;
}
