// Code points whose class depends on the version of Unicode. The splitters follow version 16 and BERT's
// normaliser follows version 8, as the libraries do that the published vocabularies are used with, whatever
// the version of utf8proc (15 and later have been looked at).
#pragma once

#include <span>

namespace twobw::tokenizer {

struct CodeRange {
  char32_t first, last;
};

std::span<const CodeRange> letters_since_15();
std::span<const CodeRange> numbers_since_15();

// Of BERT's classes, as version 8 had them.
std::span<const CodeRange> marks_since_8();
std::span<const CodeRange> punctuation_since_8();
std::span<const CodeRange> controls_since_8();
std::span<const CodeRange> marks_until_8();
std::span<const CodeRange> punctuation_until_8();

// Characters since version 9 that a normal form would move or join: both leave them as they are.
std::span<const CodeRange> unmoved_since_9();

// Whether one of these sorted ranges holds the code.
bool contains(std::span<const CodeRange> ranges, char32_t code);

struct LowerCase {
  char32_t first, last, lower;  // `lower` belongs to `first`
};

// Capitals that got a lower case after version 15.
std::span<const LowerCase> lower_case_since_15();

}  // namespace twobw::tokenizer
