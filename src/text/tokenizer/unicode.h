// What the tokenizers ask of Unicode: classes of characters, lower case, normal forms. Data from utf8proc;
// the ids of a text must not depend on which version of it a machine has, so code points that versions
// disagree about are listed (unicode_versions.h). Built without utf8proc, every function here throws
// InputError (unicode_stub.cc).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace twobw::tokenizer {

// Every character has one of the first four. The others are those of BERT's normaliser.
enum CharacterClass : std::uint8_t {
  kLetter = 1,
  kNumber = 2,
  kSpace = 4,
  kOther = 8,
  kMark = 16,         // an accent that BERT strips
  kPunctuation = 32,  // a word of its own for BERT
  kControl = 64,      // dropped by BERT
  kIdeograph = 128,   // a word of its own for BERT
};

// Two levels: blocks of 256 characters, equal ones stored once.
class CharacterClasses {
 public:
  CharacterClasses();

  std::uint8_t operator[](char32_t code) const { return blocks_[block_[code >> 8]][code & 0xFF]; }

 private:
  using Block = std::array<std::uint8_t, 256>;
  std::array<std::uint16_t, 0x1100> block_;
  std::vector<Block> blocks_;
};

// The one table, built when first asked for. Safe from any thread.
const CharacterClasses& character_classes();

// Letters, marks, decimal digits and connecting punctuation: what \w means.
bool is_word_character(char32_t code);

// Normal form C. Bytes that are not UTF-8 stay as they are.
std::string compose(std::string_view text);

// Appends the characters of normal form D of one character, not reordered.
void decompose(char32_t code, std::u32string& out);

// Sorts runs of combining marks into their canonical order.
void order_marks(std::u32string& text);

void append_lower_case(char32_t code, std::u32string& out);

}  // namespace twobw::tokenizer
