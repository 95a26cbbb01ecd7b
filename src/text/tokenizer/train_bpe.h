// Learns a byte-level BPE from text: the most frequent pair of neighbours becomes a token, again and again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/vocabulary.h"

namespace twobw::tokenizer {

// The words of a text, split as GPT-2 does, and how often each occurs.
class WordCounts {
 public:
  // Special tokens that are written out in a text are left out and end what is before them.
  explicit WordCounts(const std::vector<std::string>& special);

  void add(std::string_view text);

  const std::unordered_map<std::string, std::int64_t, TextHash, std::equal_to<>>& counts() const {
    return counts_;
  }

 private:
  TokenFinder special_;
  std::unordered_map<std::string, std::int64_t, TextHash, std::equal_to<>> counts_;
};

struct LearnedBpe {
  std::vector<std::string> tokens;        // bytes, by id: the 256 single ones in the alphabet's order first
  std::vector<std::pair<Id, Id>> merges;  // by rank
};

// At most `tokens` of them; fewer where no pair occurs `min_count` times. The same counts give the same
// tokens: of pairs that are equally frequent the one with the smaller ids is taken.
LearnedBpe learn_bpe(const WordCounts& words, std::size_t tokens, std::int64_t min_count);

}  // namespace twobw::tokenizer
