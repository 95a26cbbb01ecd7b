// Byte-level BPE never merges across words. What a word is, a regular expression in tokenizer.json says; the
// few in use are scanners written by hand here, since regular-expression engines are many times slower.
#pragma once

#include <cstdint>
#include <string_view>

namespace twobw::tokenizer {

enum class Pattern {
  kNone,    // a text is one word
  kGpt2,    // words, numbers and signs, each with the one space before it
  kLlama3,  // numbers in threes; a word takes any one sign before it; line ends stay with what they end
  kQwen2,   // the same, but every digit by itself
};

// Throws InputError for an unknown one; `document` names the file.
Pattern find_pattern(std::string_view expression, std::string_view document);

}  // namespace twobw::tokenizer
