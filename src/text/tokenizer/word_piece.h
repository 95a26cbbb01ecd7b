// WordPiece, as of BERT: from the start of a word the longest token there is, then the longest that goes on
// ("##ing"). A word that cannot be made so is unknown as a whole.
#pragma once

#include <string>

#include "text/tokenizer/bert_text.h"
#include "text/tokenizer/frame.h"
#include "text/tokenizer/vocabulary_tokenizer.h"

namespace twobw::tokenizer {

struct WordPieceModel {
  Vocabulary vocabulary;
  Id unknown = 0;
  std::string continuing = "##";
  std::size_t longest_word = 100;  // in characters; a longer one is unknown
  BertNormalizer normalizer;
  bool clean_up = true;  // decoding leaves out the space before punctuation and contractions
};

class WordPiece : public VocabularyTokenizer {
 public:
  WordPiece(WordPieceModel model, Frame frame);

  void encode(std::string_view text, std::vector<Id>& ids) const override;
  void append_text(Id id, bool first, std::string& text) const override;
  std::string describe() const override;

 private:
  const Vocabulary& vocabulary() const override { return model_.vocabulary; }
  void encode_word(std::string_view word, std::vector<Id>& ids) const;

  WordPieceModel model_;
  IdsByToken continuing_;    // without the mark
  std::size_t longest_ = 0;  // token, in bytes
};

}  // namespace twobw::tokenizer
