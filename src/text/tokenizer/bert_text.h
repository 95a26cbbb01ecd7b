// What BERT does to a text before WordPiece: it cleans and normalises it, then cuts it into words.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace twobw::tokenizer {

struct BertNormalizer {
  bool clean = true;             // drops control characters, and any space becomes ' '
  bool space_ideographs = true;  // so that each is a word
  bool strip_accents = true;
  bool lower_case = true;

  // Also makes the text UTF-8.
  std::string operator()(std::string_view text) const;
};

// Words lie between spaces; every punctuation mark is one of its own. `text` is UTF-8.
void split_bert_words(std::string_view text, const std::function<void(std::string_view)>& emit);

}  // namespace twobw::tokenizer
