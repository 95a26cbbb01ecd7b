#include "text/corpus/pieces.h"

namespace twobw::corpus {
namespace {

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

bool continues_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

}  // namespace

std::size_t piece_length(std::string_view text) {
  if (text.size() <= kLongestPiece) return text.size();
  for (std::size_t at = kLongestPiece; at > 1; --at) {
    if (text[at - 1] == '\n' && is_word(text[at]) && !is_space(text[at - 2])) return at;
  }
  for (std::size_t at = kLongestPiece; at > 0; --at) {
    if (text[at] == ' ' && !is_space(text[at - 1])) return at;
  }
  std::size_t at = kLongestPiece;
  while (at > kLongestPiece - 4 && continues_character(text[at])) --at;
  return at;
}

}  // namespace twobw::corpus
