// UTF-8, strictly: no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace twobw::tokenizer {

constexpr char32_t kReplacement = 0xFFFD;

struct Character {
  char32_t code;  // kReplacement for an invalid byte
  int length;     // in bytes; 1 if invalid
  bool valid;
};

// Character at `at`, which is before `end`. Inline: splitters spend their time here.
inline Character read_character(const char* at, const char* end) {
  const auto byte = [at](int i) { return static_cast<std::uint8_t>(at[i]); };
  const auto more = [byte](int i) { return (byte(i) & 0xC0) == 0x80; };
  const std::uint32_t first = byte(0);
  const std::ptrdiff_t left = end - at;
  if (first < 0x80) return {first, 1, true};
  if (first >= 0xC2 && first < 0xE0 && left >= 2 && more(1)) {
    return {(first & 0x1F) << 6 | (byte(1) & 0x3Fu), 2, true};
  }
  if (first >= 0xE0 && first < 0xF0 && left >= 3 && more(1) && more(2)) {
    const std::uint32_t code = (first & 0x0F) << 12 | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3Fu);
    if (code >= 0x800 && (code < 0xD800 || code >= 0xE000)) return {code, 3, true};
  }
  if (first >= 0xF0 && first < 0xF5 && left >= 4 && more(1) && more(2) && more(3)) {
    const std::uint32_t code =
        (first & 0x07) << 18 | (byte(1) & 0x3Fu) << 12 | (byte(2) & 0x3Fu) << 6 | (byte(3) & 0x3Fu);
    if (code >= 0x10000 && code < 0x110000) return {code, 4, true};
  }
  return {kReplacement, 1, false};
}

// True for a byte after the first of a character.
inline bool continues_character(char byte) {
  return (static_cast<std::uint8_t>(byte) & 0xC0) == 0x80;
}

void append_character(char32_t code, std::string& text);

// `text` with every `from` replaced by `to`.
std::string replaced(std::string_view text, std::string_view from, std::string_view to);

// Number of bytes at the end that may be the start of an incomplete character.
std::size_t unfinished_bytes(std::string_view text);

// Replaces invalid UTF-8 by U+FFFD, one for each maximal prefix of a character, as the Unicode standard
// recommends and Python's errors="replace" does.
std::string replace_invalid(std::string_view text);

}  // namespace twobw::tokenizer
