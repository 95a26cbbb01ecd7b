// Learns a byte-level BPE from text, by repeatedly merging the most frequent pair of adjacent tokens, and
// writes its files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/tokenizer/vocabulary.h"

namespace twobw::tokenizer {

// Counts of the words of a text, split as GPT-2 does.
class WordCounts {
 public:
  using Counts = std::unordered_map<std::string, std::int64_t, TextHash, std::equal_to<>>;

  // Special tokens in a text are skipped and separate words.
  explicit WordCounts(const std::vector<std::string>& special);

  void add(std::string_view text);

  const Counts& counts() const { return counts_; }

 private:
  TokenFinder special_;
  Counts counts_;
};

struct LearnedBpe {
  std::vector<std::string> tokens;  // bytes by id, first the 256 single ones in the order of the alphabet
  std::vector<std::pair<Id, Id>> merges;  // by rank
};

// Learns at most `tokens` tokens, fewer if no pair occurs `min_count` times. Deterministic: of equally
// frequent pairs the one with the smaller ids is merged.
LearnedBpe learn_bpe(const WordCounts& words, std::size_t tokens, std::int64_t min_count);

// Text of tokenizer.json; the special tokens have the last ids.
std::string tokenizer_json(const LearnedBpe& bpe, const std::vector<std::string>& special);

// Creates `folder` and writes tokenizer.json, vocab.json and merges.txt into it. Throws InputError.
void write_bpe(const LearnedBpe& bpe, const std::vector<std::string>& special, const std::string& folder);

}  // namespace twobw::tokenizer
