// Unicode for tokenizers: character classes, lower case, normal forms. The data come from utf8proc. Ids of a
// text do not depend on its version: with_utf8proc/unicode.cc lists the code points on which versions differ.
// Built without utf8proc, every function here throws InputError.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace twobw::tokenizer {

// Every character has one of the first four. BERT's normalizer uses the others.
enum CharacterClass : std::uint8_t {
  kLetter = 1,
  kNumber = 2,
  kSpace = 4,
  kOther = 8,
  kMark = 16,         // accent, stripped by BERT
  kPunctuation = 32,  // separate word for BERT
  kControl = 64,      // dropped by BERT
  kIdeograph = 128,   // separate word for BERT
};

// Two-level table: blocks of 256 characters, equal ones stored once.
class CharacterClasses {
 public:
  CharacterClasses();

  std::uint8_t operator[](char32_t code) const { return blocks_[block_[code >> 8]][code & 0xFF]; }

 private:
  using Block = std::array<std::uint8_t, 256>;
  std::array<std::uint16_t, 0x1100> block_;
  std::vector<Block> blocks_;
};

// The table, built at the first call. Thread-safe.
const CharacterClasses& character_classes();

// \w of regular expressions: letters, marks, decimal digits and connecting punctuation.
bool is_word_character(char32_t code);

// Normal form C. Invalid UTF-8 is kept.
std::string compose(std::string_view text);

// Appends normal form D of one character, without reordering marks.
void decompose(char32_t code, std::u32string& out);

// Sorts runs of combining marks into their canonical order.
void order_marks(std::u32string& text);

void append_lower_case(char32_t code, std::u32string& out);

}  // namespace twobw::tokenizer
