#include "text/tokenizer/byte_alphabet.h"

#include <array>

#include "text/tokenizer/utf8.h"

namespace twobw::tokenizer {
namespace {

constexpr char32_t kHidden = 0x100;  // where the characters for bytes that cannot be seen begin

constexpr bool is_printable(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<std::int16_t, 0x144> byte{};  // -1: none
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  for (std::int16_t& byte : alphabet.byte) byte = -1;
  char32_t hidden = kHidden;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char32_t character = is_printable(byte) ? byte : hidden++;
    alphabet.character[byte] = character;
    alphabet.byte[character] = static_cast<std::int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

char32_t visible(std::uint8_t byte) {
  return kAlphabet.character[byte];
}

std::string visible_text(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) append_character(visible(static_cast<std::uint8_t>(byte)), text);
  return text;
}

std::optional<std::string> bytes_of_visible(std::string_view visible) {
  std::string bytes;
  const char* const end = visible.data() + visible.size();
  for (const char* at = visible.data(); at < end;) {
    const Character next = read_character(at, end);
    if (!next.valid || next.code >= kAlphabet.byte.size() || kAlphabet.byte[next.code] < 0)
      return std::nullopt;
    bytes.push_back(static_cast<char>(kAlphabet.byte[next.code]));
    at += next.length;
  }
  return bytes;
}

}  // namespace twobw::tokenizer
