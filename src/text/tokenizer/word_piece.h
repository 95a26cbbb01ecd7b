// WordPiece of BERT: from the start of a word the longest token, then the longest continuation ("##ing"), and
// so on. A word that cannot be split this way is unknown as a whole.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "text/tokenizer/vocabulary.h"

namespace twobw::tokenizer {

struct BertNormalizer {
  bool clean = true;             // drops control characters and turns all spaces into ' '
  bool space_ideographs = true;  // makes each a word
  bool strip_accents = true;
  bool lower_case = true;

  // Returns valid UTF-8.
  std::string operator()(std::string_view text) const;
};

// Splits UTF-8 text at spaces; every punctuation mark is a separate word.
void split_bert_words(std::string_view text, const std::function<void(std::string_view)>& emit);

struct WordPieceModel {
  Vocabulary vocabulary;  // moved into the tokenizer
  Id unknown = 0;
  std::string continuing = "##";
  std::size_t longest_word = 100;  // in characters; longer words are unknown
  BertNormalizer normalizer;
  bool clean_up = true;  // decoding omits spaces before punctuation and contractions
};

class WordPiece : public VocabularyTokenizer {
 public:
  WordPiece(WordPieceModel model, const SpecialTokens& tokens);

  void encode(std::string_view text, std::vector<Id>& ids) const override;
  void append_text(Id id, bool first, std::string& text) const override;
  std::string describe() const override;

 private:
  void encode_word(std::string_view word, std::vector<Id>& ids) const;

  WordPieceModel model_;
  IdsByToken continuing_;    // without `continuing`
  std::size_t longest_ = 0;  // longest token in bytes
};

}  // namespace twobw::tokenizer
