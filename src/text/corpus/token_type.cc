#include "text/corpus/token_type.h"

#include <bit>
#include <cstring>

namespace twobw::corpus {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

std::optional<TokenType> token_type(std::uint8_t code) {
  if ((code >= 1 && code <= 5) || code == 8) return static_cast<TokenType>(code);
  return std::nullopt;
}

std::string_view name(TokenType type) {
  switch (type) {
    case TokenType::kUint8:
      return "uint8";
    case TokenType::kInt8:
      return "int8";
    case TokenType::kInt16:
      return "int16";
    case TokenType::kInt32:
      return "int32";
    case TokenType::kInt64:
      return "int64";
    case TokenType::kUint16:
      return "uint16";
  }
  return "unknown";
}

std::size_t token_bytes(TokenType type) {
  return with_number(type, [](auto number) { return sizeof number; });
}

void read_tokens(TokenType type, const std::byte* at, std::span<std::int64_t> out) {
  with_number(type, [=](auto number) {
    const std::byte* from = at;
    for (std::int64_t& token : out) {
      std::memcpy(&number, from, sizeof number);
      from += sizeof number;
      token = number;  // NOLINT(bugprone-signed-char-misuse): int8 is a number here
    }
  });
}

TokenType type_for_vocabulary(tokenizer::Id vocab_size) {
  return vocab_size <= 65536 ? TokenType::kUint16 : TokenType::kInt32;
}

}  // namespace twobw::corpus
