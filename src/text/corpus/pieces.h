// Long documents are encoded in pieces, so that memory does not grow with them.
#pragma once

#include <cstddef>
#include <string_view>

namespace twobw::corpus {

inline constexpr std::size_t kLongestPiece = std::size_t{1} << 20;

// How much of the beginning of a text is encoded at once: all of it, or up to a place where the words before
// and after do not depend on each other. That is after the end of a line, where the next begins with a letter
// or digit of ASCII; else before a space; else between two characters. Looks at kLongestPiece + 1 bytes only,
// so that who reads a file needs no more of it at a time.
std::size_t piece_length(std::string_view text);

}  // namespace twobw::corpus
