#include "text/tokenizer/byte_level.h"

#include <array>
#include <cstring>

#include "text/tokenizer/utf8.h"

namespace twobw::tokenizer {
namespace {

constexpr char32_t kHidden = 0x100;  // first character for an invisible byte

constexpr bool is_printable(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<std::int16_t, 0x144> byte{};  // -1: none
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  for (std::int16_t& byte : alphabet.byte) byte = -1;
  char32_t hidden = kHidden;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char32_t character = is_printable(byte) ? byte : hidden++;
    alphabet.character[byte] = character;
    alphabet.byte[character] = static_cast<std::int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

// Bytes of a `visible` text; nothing if a character is not in the alphabet.
std::optional<std::string> bytes_of_visible(std::string_view visible) {
  std::string bytes;
  const char* const end = visible.data() + visible.size();
  for (const char* at = visible.data(); at < end;) {
    const Character next = read_character(at, end);
    if (!next.valid || next.code >= kAlphabet.byte.size() || kAlphabet.byte[next.code] < 0)
      return std::nullopt;
    bytes.push_back(static_cast<char>(kAlphabet.byte[next.code]));
    at += next.length;
  }
  return bytes;
}

}  // namespace

// Output buffer that stores the ids of a word four at a time without checking the capacity.
class IdBuffer {
 public:
  explicit IdBuffer(std::vector<Id>& out) : out_(out) {}
  ~IdBuffer() { flush(); }
  IdBuffer(const IdBuffer&) = delete;
  IdBuffer& operator=(const IdBuffer&) = delete;

  void push(Id id) {
    if (used_ == kRoom) flush();
    ids_[used_++] = id;
  }

  // Appends the first `count` ids.
  void push_some(const std::array<Id, 4>& ids, std::size_t count) {
    if (used_ + ids.size() > kRoom) flush();
    std::memcpy(&ids_[used_], ids.data(), sizeof ids);
    used_ += count;
  }

 private:
  static constexpr std::size_t kRoom = 2048;

  void flush() {
    out_.insert(out_.end(), ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(used_));
    used_ = 0;
  }

  std::vector<Id>& out_;
  std::size_t used_ = 0;
  std::array<Id, kRoom> ids_;
};

char32_t visible(std::uint8_t byte) {
  return kAlphabet.character[byte];
}

std::string visible_text(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) append_character(visible(static_cast<std::uint8_t>(byte)), text);
  return text;
}

ByteLevelBpe::ByteLevelBpe(ByteLevelModel model, const SpecialTokens& tokens)
    : VocabularyTokenizer(std::move(model.vocabulary)),
      model_(std::move(model)),
      byte_ids_{.ids = {}, .unknown = model_.unknown, .fuse_unknown = model_.fuse_unknown},
      classes_(character_classes()) {
  for (std::size_t byte = 0; byte < byte_ids_.ids.size(); ++byte) {
    const char as_char = static_cast<char>(byte);
    byte_ids_.ids[byte] = vocabulary_.find(visible_text({&as_char, 1})).value_or(ByteIds::kNone);
  }
  add(tokens, model_.compose ? compose : AddedTokens::Normalize());
  for (Id id = 0; id < vocabulary_.size(); ++id) {
    const std::string& token = vocabulary_.token(id);
    // Added tokens are plain text, even if all characters are in the alphabet.
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
  constexpr const char* kSplits[] = {"not split", "split as GPT-2 does", "split as Llama 3 does",
                                     "split as Qwen 2 does"};
  return std::string("byte-level BPE, ") + kSplits[static_cast<std::size_t>(model_.pattern)];
}

}  // namespace twobw::tokenizer
