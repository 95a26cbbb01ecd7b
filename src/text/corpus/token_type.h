// The number formats of tokens in a .bin file, with the codes that Megatron's .idx files give them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "text/tokenizer/tokenizer.h"

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

// Calls with a number of the type; its value says nothing.
template <typename Call>
auto with_number(TokenType type, const Call& call) {
  switch (type) {
    case TokenType::kUint8:
      return call(std::uint8_t{});
    case TokenType::kInt8:
      return call(std::int8_t{});
    case TokenType::kInt16:
      return call(std::int16_t{});
    case TokenType::kInt32:
      return call(std::int32_t{});
    case TokenType::kInt64:
      return call(std::int64_t{});
    case TokenType::kUint16:
      break;
  }
  return call(std::uint16_t{});
}

// Nothing: no format for tokens has this code.
std::optional<TokenType> token_type(std::uint8_t code);

std::string_view name(TokenType type);
std::size_t token_bytes(TokenType type);

// The tokens that lie from `at` on, aligned or not; as many as `out` holds.
void read_tokens(TokenType type, const std::byte* at, std::span<std::int64_t> out);

// uint16 where the ids fit, else int32.
TokenType type_for_vocabulary(tokenizer::Id vocab_size);

}  // namespace twobw::corpus
