// Fuzz targets: readers of untrusted bytes. A target has a function, a line in targets.cc, and a folder of
// inputs in corpus/.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace twobw::fuzz {

// Format of the inputs, for mutations.
enum class Shape { Bytes, Lines, Json };

struct Target {
  const char* name;  // of the target and of its folder
  Shape shape;
  // Returns if the input is accepted, after using its contents. Throws InputError if it is refused. Any other
  // exception is a failure.
  void (*read)(std::string_view input);
};

// The targets of this build.
const std::vector<Target>& targets();

// Throws InputError that lists the known names.
const Target& find_target(std::string_view name);

struct Attempt {
  bool accepted = false;
  std::string sentence;  // of the refusal
  std::string failure;   // empty: none
};

// Runs one input. Failures are exceptions other than InputError, a refusal without one proper sentence, and
// more memory than 64 MiB and 64 times the size of the input. (A crash ends the program.)
Attempt attempt(const Target& target, std::string_view input);

// Reports a broken promise of a reader, for instance that accepted input can be written and read again.
[[noreturn]] void fail(const std::string& problem);

// The parts of an input that consists of several files, separated by lines with a form feed; missing ones are
// empty.
std::vector<std::string> split_files(std::string_view input, std::size_t count);

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace twobw::fuzz
