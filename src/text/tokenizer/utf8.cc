#include "text/tokenizer/utf8.h"

#include <algorithm>

namespace twobw::tokenizer {
namespace {

// Length of the longest prefix of a character at the start of `text`, which has no valid one; at least 1.
std::size_t broken_length(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t first = byte(0);
  if (first < 0xC2 || first >= 0xF5 || text.size() < 2) return 1;
  std::uint8_t low = 0x80;
  std::uint8_t high = 0xBF;
  if (first == 0xE0) low = 0xA0;   // shorter forms exist
  if (first == 0xED) high = 0x9F;  // surrogates
  if (first == 0xF0) low = 0x90;
  if (first == 0xF4) high = 0x8F;  // above U+10FFFF
  if (byte(1) < low || byte(1) > high) return 1;
  const std::size_t whole = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  std::size_t length = 2;
  while (length < std::min(whole, text.size()) && (byte(length) & 0xC0) == 0x80) ++length;
  return length;
}

}  // namespace

void append_character(char32_t code, std::string& text) {
  const auto add = [&text](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xC0 | code >> 6);
    add(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    add(0xE0 | code >> 12);
    add(0x80 | (code >> 6 & 0x3F));
    add(0x80 | (code & 0x3F));
  } else {
    add(0xF0 | code >> 18);
    add(0x80 | (code >> 12 & 0x3F));
    add(0x80 | (code >> 6 & 0x3F));
    add(0x80 | (code & 0x3F));
  }
}

std::size_t unfinished_bytes(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const std::string_view tail = text.substr(text.size() - back);
    const auto first = static_cast<std::uint8_t>(tail[0]);
    if ((first & 0xC0) == 0x80) continue;
    const std::size_t whole = first < 0xC2 || first >= 0xF5 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    return back < whole && broken_length(tail) == back ? back : 0;
  }
  return 0;
}

std::string replace_invalid(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  const char* const end = text.data() + text.size();
  const char* at = text.data();
  while (at < end) {
    const Character next = read_character(at, end);
    if (next.valid) {
      out.append(at, static_cast<std::size_t>(next.length));
      at += next.length;
    } else {
      append_character(kReplacement, out);
      at += broken_length({at, static_cast<std::size_t>(end - at)});
    }
  }
  return out;
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  for (std::size_t at = text.find(from); at != std::string_view::npos; at = text.find(from)) {
    result.append(text.substr(0, at)).append(to);
    text.remove_prefix(at + from.size());
  }
  return result.append(text);
}

}  // namespace twobw::tokenizer
