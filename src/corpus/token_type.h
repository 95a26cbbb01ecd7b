// The number formats of tokens in a .bin file, with the codes that Megatron's .idx files give them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tokenizer/tokenizer.h"

namespace twobw::corpus {

// Codes 6 and 7 are floating-point numbers, which are no tokens.
enum class TokenType : std::uint8_t {
  kUint8 = 1,
  kInt8 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kUint16 = 8
};

// Nothing: no format for tokens has this code.
std::optional<TokenType> token_type(std::uint8_t code);

std::string_view name(TokenType type);
std::size_t token_bytes(TokenType type);

// uint16 where the ids fit, else int32.
TokenType type_for_vocabulary(tokenizer::Id vocab_size);

}  // namespace twobw::corpus
