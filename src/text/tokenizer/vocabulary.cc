#include "text/tokenizer/vocabulary.h"

#include "core/base/error.h"

namespace twobw::tokenizer {

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

}  // namespace twobw::tokenizer
