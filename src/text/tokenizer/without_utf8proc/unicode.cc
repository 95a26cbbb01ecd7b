// Every function throws InputError in builds without utf8proc.
#include "text/tokenizer/unicode.h"
#include "core/base/error.h"

namespace twobw::tokenizer {
namespace {

[[noreturn]] void refuse_unicode() {
  fail_input(
      "this tokenizer needs utf8proc, which this build lacks: install libutf8proc-dev and build again, or "
      "use the tokenizer 'bytes'");
}

}  // namespace

CharacterClasses::CharacterClasses() : block_() {
  refuse_unicode();
}

const CharacterClasses& character_classes() {
  refuse_unicode();
}

bool is_word_character(char32_t) {
  refuse_unicode();
}

std::string compose(std::string_view) {
  refuse_unicode();
}

void decompose(char32_t, std::u32string&) {
  refuse_unicode();
}

void order_marks(std::u32string&) {
  refuse_unicode();
}

void append_lower_case(char32_t, std::u32string&) {
  refuse_unicode();
}

}  // namespace twobw::tokenizer
