#include "text/tokenizer/character_bpe.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "core/base/error.h"
#include "text/tokenizer/utf8.h"

namespace twobw::tokenizer {
namespace {

AddedTokens::Normalize marking(SpaceMarks marks) {
  if (marks == SpaceMarks::kNormalized) return mark_spaces;
  if (marks != SpaceMarks::kPrepended) return nullptr;
  return [](std::string_view text) { return std::string(kSpaceMark) + mark_spaces(text); };
}

std::optional<char> shown_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  unsigned value = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
  if (error != std::errc() || end != token.data() + 5) return std::nullopt;
  return static_cast<char>(value);
}

std::string shown_text(std::string_view token) {
  if (const std::optional<char> byte = shown_byte(token)) return {*byte};
  return unmark_spaces(token);
}

}  // namespace

std::string mark_spaces(std::string_view text) {
  return replaced(text, " ", kSpaceMark);
}

std::string unmark_spaces(std::string_view text) {
  return replaced(text, kSpaceMark, " ");
}

std::string byte_token(std::uint8_t byte) {
  return fmt::format("<0x{:02X}>", byte);
}

CharacterBpe::CharacterBpe(CharacterBpeModel model, const SpecialTokens& tokens)
    : VocabularyTokenizer(std::move(model.vocabulary)), model_(std::move(model)) {
  for (std::size_t byte = 0; byte < bytes_.size(); ++byte) {
    const std::optional<Id> id = vocabulary_.find(byte_token(static_cast<std::uint8_t>(byte)));
    TWOBW_ASSERT(id, "byte {} has no token", byte);
    bytes_[byte] = *id;
  }
  // Added tokens are not tokens of the model and follow below.
  for (Id id = 0; id < vocabulary_.size(); ++id) {
    const std::string& token = vocabulary_.token(id);
    if (token.empty()) continue;
    const Character first = read_character(token.data(), token.data() + token.size());
    if (first.valid && static_cast<std::size_t>(first.length) == token.size())
      characters_[first.code] = *vocabulary_.find(token);
  }
  const AddedTokens::Normalize mark = marking(model_.marks);
  add(tokens, mark);
  texts_.reserve(static_cast<std::size_t>(vocabulary_.size()));
  for (Id id = 0; id < vocabulary_.size(); ++id) texts_.push_back(shown_text(vocabulary_.token(id)));
  // Added tokens are decoded as they are matched.
  for (const AddedToken& token : tokens.added) {
    const bool marked = mark && token.normalized;
    texts_[static_cast<std::size_t>(token.id)] = shown_text(marked ? mark(token.content) : token.content);
  }
}

void CharacterBpe::encode(std::string_view text, std::vector<Id>& ids) const {
  const std::string valid = replace_invalid(text);
  added_.split(
      valid, [&](std::string_view part) { encode_part(part, part.data() == valid.data(), ids); },
      [&](Id id) { ids.push_back(id); });
}

void CharacterBpe::encode_part(std::string_view part, bool at_start, std::vector<Id>& ids) const {
  if (model_.marks == SpaceMarks::kNormalized || model_.marks == SpaceMarks::kPrepended)
    return encode_marked(part, ids);
  std::string marked = mark_spaces(part);
  const bool begins = model_.marks == SpaceMarks::kAlways || (model_.marks == SpaceMarks::kFirst && at_start);
  if (begins && !marked.starts_with(kSpaceMark)) marked.insert(0, kSpaceMark);
  encode_marked(marked, ids);
}

void CharacterBpe::encode_marked(std::string_view text, std::vector<Id>& ids) const {
  std::vector<Id> found;
  found.reserve(text.size());
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    const Character character = read_character(at, end);
    const char* const next = at + character.length;
    if (const auto known = characters_.find(character.code); known != characters_.end()) {
      found.push_back(known->second);
    } else {
      for (; at < next; ++at) found.push_back(bytes_[static_cast<std::uint8_t>(*at)]);
    }
    at = next;
  }
  merge_word(model_.merges, found);
  ids.insert(ids.end(), found.begin(), found.end());
}

void CharacterBpe::append_text(Id id, bool first, std::string& text) const {
  if (id < 0 || id >= vocab_size()) return;
  const std::string_view piece = texts_[static_cast<std::size_t>(id)];
  text += first && model_.strip && piece.starts_with(' ') ? piece.substr(1) : piece;
}

std::string CharacterBpe::describe() const {
  return "BPE of characters, with bytes for others";
}

}  // namespace twobw::tokenizer
