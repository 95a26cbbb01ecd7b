#include "text/tokenizer/tokenizer.h"

#include <utility>

#include "text/tokenizer/utf8.h"

namespace twobw::tokenizer {

void Tokenizer::encode_sequence(std::string_view text, std::vector<Id>& ids) const {
  ids.insert(ids.end(), prefix_.begin(), prefix_.end());
  encode(text, ids);
  ids.insert(ids.end(), suffix_.begin(), suffix_.end());
}

std::string Tokenizer::decode(std::span<const Id> ids, bool skip_special) const {
  std::string text;
  bool first = true;
  for (const Id id : ids) {
    if (skip_special && is_special(id)) continue;
    append_text(id, first, text);
    first = first && begins_after(id, !text.empty());
  }
  return text;
}

std::string StreamDecoder::push(Id id) {
  if (skip_special_ && tokenizer_.is_special(id)) return "";
  const std::size_t before = pending_.size();
  tokenizer_.append_text(id, first_, pending_);
  first_ = first_ && tokenizer_.begins_after(id, pending_.size() != before);
  const std::size_t held = unfinished_bytes(pending_);
  std::string ready = pending_.substr(0, pending_.size() - held);
  pending_.erase(0, ready.size());
  return ready;
}

std::string StreamDecoder::finish() {
  first_ = true;
  return std::exchange(pending_, "");
}

}  // namespace twobw::tokenizer
