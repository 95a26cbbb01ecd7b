// Byte-level BPE, as of GPT-2, Llama 3 and Qwen: a text is split into words, the bytes of each are merged.
// Every text has an encoding, and decoding gives it back byte for byte, unless the file asks for a normal
// form or lacks bytes.
#pragma once

#include <memory>
#include <string>

#include "text/tokenizer/bpe.h"
#include "text/tokenizer/frame.h"
#include "text/tokenizer/merge_table.h"
#include "text/tokenizer/pool.h"
#include "text/tokenizer/splitter.h"
#include "text/tokenizer/unicode.h"
#include "text/tokenizer/vocabulary_tokenizer.h"
#include "text/tokenizer/word_cache.h"

namespace twobw::tokenizer {

class IdBuffer;

struct ByteLevelModel {
  Vocabulary vocabulary;  // as the files write it, in the visible alphabet
  MergeTable merges{0};
  Pattern pattern = Pattern::kGpt2;
  bool compose = false;        // to normal form C first
  bool prefix_space = false;   // a text that begins with no space gets one
  bool ignore_merges = false;  // a word that is a token is that token, whatever the merges say
  std::optional<Id> unknown;   // for bytes without a token
  bool fuse_unknown = false;
};

class ByteLevelBpe : public VocabularyTokenizer {
 public:
  ByteLevelBpe(ByteLevelModel model, Frame frame);

  void encode(std::string_view text, std::vector<Id>& ids) const override;
  void append_text(Id id, bool first, std::string& text) const override;
  std::string describe() const override;

 private:
  const Vocabulary& vocabulary() const override { return model_.vocabulary; }
  void encode_part(std::string_view part, WordCache& cache, IdBuffer& ids) const;
  std::vector<Id> encode_word(std::string_view word) const;

  ByteLevelModel model_;
  ByteIds byte_ids_;
  std::vector<std::string> bytes_;  // of every id
  IdsByToken whole_words_;          // by their bytes, for ignore_merges
  const CharacterClasses& classes_;
  mutable Pool<WordCache> caches_;
};

}  // namespace twobw::tokenizer
