#include "text/tokenizer/vocabulary.h"

#include <cstring>

#include "core/base/error.h"
#include "text/tokenizer/unicode.h"
#include "text/tokenizer/utf8.h"

namespace twobw::tokenizer {
namespace {

// Position of the last character of a text.
std::size_t last_character(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && text.size() - at < 4 && continues_character(text[at])) --at;
  return at;
}

Character first_of(std::string_view text) {
  return read_character(text.data(), text.data() + text.size());
}

bool ends_in_word(std::string_view text) {
  return !text.empty() && is_word_character(first_of(text.substr(last_character(text))).code);
}

bool begins_in_word(std::string_view text) {
  return !text.empty() && is_word_character(first_of(text).code);
}

std::size_t spaces_at_front(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size()) {
    const Character next = first_of(text.substr(length));
    if (!(character_classes()[next.code] & kSpace)) break;
    length += static_cast<std::size_t>(next.length);
  }
  return length;
}

std::size_t without_spaces_at_back(std::string_view text) {
  while (!text.empty()) {
    const std::size_t last = last_character(text);
    if (!(character_classes()[first_of(text.substr(last)).code] & kSpace)) break;
    text = text.substr(0, last);
  }
  return text.size();
}

std::vector<AddedToken> chosen(const std::vector<AddedToken>& tokens, bool normalized,
                               const AddedTokens::Normalize& normalize) {
  std::vector<AddedToken> some;
  for (AddedToken token : tokens) {
    if (token.normalized != normalized) continue;
    if (normalized && normalize) token.content = normalize(token.content);
    some.push_back(std::move(token));
  }
  return some;
}

}  // namespace

void Vocabulary::add(Id id, std::string token) {
  TWOBW_ASSERT(id >= 0, "token '{}' has id {}", token, id);
  const auto place = static_cast<std::size_t>(id);
  if (tokens_.size() <= place) tokens_.resize(place + 1);
  ids_.insert_or_assign(token, id);
  if (tokens_[place].empty()) tokens_[place] = std::move(token);
}

std::optional<Id> Vocabulary::find(std::string_view token) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

const std::string& Vocabulary::token(Id id) const {
  static const std::string kNone;
  return id >= 0 && id < size() ? tokens_[static_cast<std::size_t>(id)] : kNone;
}

TokenFinder::TokenFinder(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::size_t nodes = 1;
  std::size_t starts = 0;
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const std::string& content = tokens_[i].content;
    if (content.empty()) continue;
    std::size_t node = 0;
    for (const char byte : content) {
      const auto [found, added] = edges_.try_emplace(edge(node, byte), nodes);
      if (added) ++nodes;
      node = found->second;
    }
    ends_.try_emplace(node, i);
    bool& starting = starts_[static_cast<std::uint8_t>(content[0])];
    if (!starting) ++starts;
    starting = true;
    only_start_ = content[0];
  }
  if (starts != 1) only_start_.reset();
}

const char* TokenFinder::next_start(const char* at, const char* end) const {
  if (only_start_) {
    const void* const found = std::memchr(at, *only_start_, static_cast<std::size_t>(end - at));
    return found != nullptr ? static_cast<const char*>(found) : end;
  }
  while (at < end && !starts_[static_cast<std::uint8_t>(*at)]) ++at;
  return at;
}

const AddedToken* TokenFinder::longest(std::string_view text) const {
  const AddedToken* best = nullptr;
  std::size_t node = 0;
  for (const char byte : text) {
    const auto next = edges_.find(edge(node, byte));
    if (next == edges_.end()) break;
    node = next->second;
    if (const auto end = ends_.find(node); end != ends_.end()) best = &tokens_[end->second];
  }
  return best;
}

void TokenFinder::split(std::string_view whole, const std::function<void(std::string_view)>& text,
                        const std::function<void(const AddedToken&)>& token) const {
  std::size_t done = 0;
  const auto emit_text = [&](std::size_t stop) {
    if (stop > done) text(whole.substr(done, stop - done));
  };
  const char* const begin = whole.data();
  const char* const end = begin + whole.size();
  const bool any = !edges_.empty();
  for (const char* at = any && begin != end ? next_start(begin, end) : end; at < end;) {
    auto start = static_cast<std::size_t>(at - begin);
    const AddedToken* const found = longest(whole.substr(start));
    if (found == nullptr) {
      at = next_start(at + 1, end);
      continue;
    }
    std::size_t stop = start + found->content.size();
    // A match inside a word is skipped as a whole.
    at = next_start(begin + stop, end);
    if (found->single_word && (ends_in_word(whole.substr(0, start)) || begins_in_word(whole.substr(stop)))) {
      continue;
    }
    if (found->strip_left) start = std::max(done, without_spaces_at_back(whole.substr(0, start)));
    if (found->strip_right) stop += spaces_at_front(whole.substr(stop));
    emit_text(start);
    token(*found);
    done = std::max(done, stop);
  }
  emit_text(whole.size());
}

AddedTokens::AddedTokens(const std::vector<AddedToken>& tokens, Normalize normalize)
    : normalize_(std::move(normalize)),
      raw_(chosen(tokens, false, normalize_)),
      normalized_(chosen(tokens, true, normalize_)) {
  for (const AddedToken& token : tokens) by_id_.try_emplace(token.id, token);
}

void AddedTokens::split(std::string_view whole, const std::function<void(std::string_view)>& text,
                        const std::function<void(Id)>& token) const {
  const auto emit_token = [&](const AddedToken& found) { token(found.id); };
  raw_.split(
      whole,
      [&](std::string_view part) {
        if (normalize_) {
          const std::string changed = normalize_(part);
          normalized_.split(changed, text, emit_token);
        } else {
          normalized_.split(part, text, emit_token);
        }
      },
      emit_token);
}

const AddedToken* AddedTokens::find(Id id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &found->second;
}

void VocabularyTokenizer::add(const SpecialTokens& tokens, AddedTokens::Normalize normalize) {
  for (const AddedToken& token : tokens.added) vocabulary_.add(token.id, token.content);
  added_ = AddedTokens(tokens.added, std::move(normalize));
  special_ = tokens.ids;
  prefix_ = tokens.prefix;
  suffix_ = tokens.suffix;
  cuts_front_ = tokens.cuts_front;
}

}  // namespace twobw::tokenizer
