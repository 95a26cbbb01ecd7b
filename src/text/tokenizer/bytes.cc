#include "text/tokenizer/bytes.h"

namespace twobw::tokenizer {

void Bytes::encode(std::string_view text, std::vector<Id>& ids) const {
  ids.reserve(ids.size() + text.size());
  for (const char byte : text) ids.push_back(static_cast<std::uint8_t>(byte));
}

void Bytes::append_text(Id id, bool, std::string& text) const {
  if (id >= 0 && id < vocab_size()) text.push_back(static_cast<char>(id));
}

std::string Bytes::token(Id id) const {
  std::string byte;
  append_text(id, true, byte);
  return byte;
}

std::optional<Id> Bytes::id(std::string_view token) const {
  if (token.size() != 1) return std::nullopt;
  return static_cast<std::uint8_t>(token[0]);
}

}  // namespace twobw::tokenizer
