// A fuzz target: a reader of ours, given bytes from elsewhere. A file each, a line in targets.cc, and a
// folder of inputs in corpus/.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace twobw::fuzz {

// What mutations may know of an input.
enum class Shape { Bytes, Lines, Json };

struct Target {
  const char* name;  // and that of its folder
  Shape shape;
  // Returns: it is accepted, and what was read of it works. Throws InputError: it is refused. All else is a
  // failure.
  void (*read)(std::string_view input);
};

// Those that this build has.
const std::vector<Target>& targets();

// Throws InputError for a name that is unknown, with those that are.
const Target& find_target(std::string_view name);

// A promise of the reader that does not hold, such as that what was read can be written and read again.
[[noreturn]] void fail(const std::string& what);

// The files that an input of several is made of, between lines with a form feed; missing ones are empty.
std::vector<std::string> split_files(std::string_view input, std::size_t count);

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace twobw::fuzz
