#include "text/tokenizer/byte_level.h"

#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/id_buffer.h"
#include "text/tokenizer/scan.h"

namespace twobw::tokenizer {
namespace {

ByteIds find_byte_ids(const ByteLevelModel& model) {
  ByteIds found{.ids = {}, .unknown = model.unknown, .fuse_unknown = model.fuse_unknown};
  for (std::size_t byte = 0; byte < found.ids.size(); ++byte) {
    const char as_char = static_cast<char>(byte);
    found.ids[byte] = model.vocabulary.find(visible_text({&as_char, 1})).value_or(ByteIds::kNone);
  }
  return found;
}

AddedTokens::Normalize normal_form(bool composed) {
  if (!composed) return nullptr;
  return [](std::string_view text) { return compose(text); };
}

}  // namespace

ByteLevelBpe::ByteLevelBpe(ByteLevelModel model, Frame frame)
    : VocabularyTokenizer(frame, normal_form(model.compose)),
      model_(std::move(model)),
      byte_ids_(find_byte_ids(model_)),
      classes_(character_classes()) {
  for (AddedToken& token : frame.added) model_.vocabulary.add(token.id, std::move(token.content));
  for (Id id = 0; id < model_.vocabulary.size(); ++id) {
    const std::string& token = model_.vocabulary.token(id);
    // An added token is written as it is, even if its characters all have a meaning in the alphabet.
    const std::optional<std::string> bytes =
        added_.find(id) != nullptr ? std::nullopt : bytes_of_visible(token);
    bytes_.push_back(bytes.value_or(token));
    if (model_.ignore_merges && bytes) whole_words_.try_emplace(*bytes, id);
  }
}

void ByteLevelBpe::encode(std::string_view text, std::vector<Id>& ids) const {
  auto cache = caches_.borrow();
  IdBuffer buffer(ids);
  added_.split(
      text, [&](std::string_view part) { encode_part(part, *cache, buffer); },
      [&](Id id) { buffer.push(id); });
}

void ByteLevelBpe::encode_part(std::string_view part, WordCache& cache, IdBuffer& ids) const {
  std::string spaced;
  if (model_.prefix_space && !part.starts_with(' ')) part = spaced.append(1, ' ').append(part);
  const char* const end = part.data() + part.size();
  const auto push_word = [&](const std::vector<Id>& found) {
    for (const Id id : found) ids.push(id);
  };
  scan(model_.pattern, part, classes_, [&](std::string_view word) {
    if (word.size() > WordCache::kLongest) {
      push_word(encode_word(word));
      return;
    }
    const WordCache::Key key = WordCache::key(word, end);
    if (const WordCache::Entry* const known = cache.find(key)) {
      ids.push_some(known->ids, known->count());
      return;
    }
    const std::vector<Id> found = encode_word(word);
    push_word(found);
    std::array<Id, 4> kept;
    if (found.size() > kept.size()) return;
    kept.fill(WordCache::kNone);
    std::copy(found.begin(), found.end(), kept.begin());
    cache.insert(key, kept);
  });
}

std::vector<Id> ByteLevelBpe::encode_word(std::string_view word) const {
  if (model_.ignore_merges) {
    if (const auto whole = whole_words_.find(word); whole != whole_words_.end()) return {whole->second};
  }
  std::vector<Id> ids = byte_ids_(word);
  merge_word(model_.merges, ids);
  return ids;
}

void ByteLevelBpe::append_text(Id id, bool, std::string& text) const {
  if (id >= 0 && id < vocab_size()) text += bytes_[static_cast<std::size_t>(id)];
}

std::string ByteLevelBpe::describe() const {
  switch (model_.pattern) {
    case Pattern::kNone:
      return "byte-level BPE, not split";
    case Pattern::kGpt2:
      return "byte-level BPE, split as GPT-2 does";
    case Pattern::kLlama3:
      return "byte-level BPE, split as Llama 3 does";
    case Pattern::kQwen2:
      return "byte-level BPE, split as Qwen 2 does";
  }
  return "byte-level BPE";
}

}  // namespace twobw::tokenizer
