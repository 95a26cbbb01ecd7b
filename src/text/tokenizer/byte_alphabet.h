// The files of byte-level BPE write a byte as a visible character: the printable ones of Latin-1 as
// themselves, the other 68 as the characters from U+0100 on, in order. So the space is U+0120.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace twobw::tokenizer {

char32_t visible(std::uint8_t byte);

std::string visible_text(std::string_view bytes);

// The bytes that `visible` text stands for; nothing where a character is not of the alphabet.
std::optional<std::string> bytes_of_visible(std::string_view visible);

}  // namespace twobw::tokenizer
