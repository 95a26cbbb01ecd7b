// Byte-level BPE of GPT-2, Llama 3 and Qwen: a text is split into words, and the bytes of each are merged.
// Every text has an encoding, and decoding restores it byte for byte, unless the file asks for a normal form
// or lacks bytes.
#pragma once

#include <cstdint>
#include <string>

#include "text/tokenizer/bpe.h"
#include "text/tokenizer/scan.h"
#include "text/tokenizer/unicode.h"
#include "text/tokenizer/vocabulary.h"
#include "text/tokenizer/word_cache.h"

namespace twobw::tokenizer {

// Alphabet of the files: the printable bytes of Latin-1 as themselves, the other 68 bytes as the characters
// from U+0100 on, in order. The space is U+0120.
char32_t visible(std::uint8_t byte);
std::string visible_text(std::string_view bytes);

struct ByteLevelModel {
  Vocabulary vocabulary;  // in the visible alphabet; moved into the tokenizer
  MergeTable merges{0};
  Pattern pattern = Pattern::kGpt2;
  bool compose = false;        // to normal form C first
  bool prefix_space = false;   // prepends a space to a text that does not begin with one
  bool ignore_merges = false;  // a word that is a token needs no merges
  std::optional<Id> unknown;   // for bytes without a token
  bool fuse_unknown = false;
};

class IdBuffer;

class ByteLevelBpe : public VocabularyTokenizer {
 public:
  ByteLevelBpe(ByteLevelModel model, const SpecialTokens& tokens);

  void encode(std::string_view text, std::vector<Id>& ids) const override;
  void append_text(Id id, bool first, std::string& text) const override;
  std::string describe() const override;

 private:
  void encode_part(std::string_view part, WordCache& cache, IdBuffer& ids) const;
  std::vector<Id> encode_word(std::string_view word) const;

  ByteLevelModel model_;
  ByteIds byte_ids_;
  std::vector<std::string> bytes_;  // of every id
  IdsByToken whole_words_;          // by their bytes, for ignore_merges
  const CharacterClasses& classes_;
  mutable WordCachePool caches_;
};

}  // namespace twobw::tokenizer
