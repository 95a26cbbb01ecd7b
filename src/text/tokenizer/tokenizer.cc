#include "text/tokenizer/tokenizer.h"

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

}  // namespace twobw::tokenizer
