// How the pieces of sentencepiece, and of what is made like it, write a space: "▁".
#pragma once

#include <string>
#include <string_view>

namespace twobw::tokenizer {

inline constexpr std::string_view kSpaceMark = "\u2581";

std::string mark_spaces(std::string_view text);
std::string unmark_spaces(std::string_view text);

}  // namespace twobw::tokenizer
