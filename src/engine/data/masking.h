// Masked-token training (BERT, Devlin et al. 2018), and the tokens around a text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/config.h"
#include "engine/data/batch.h"
#include "text/tokenizer/tokenizer.h"

namespace twobw::data {

// Some tokens become targets; 8 in 10 of these are replaced by the mask, 1 in 10 by a random token.
struct Masking {
  double probability = 0.15;  // that a token, or a whole word, is a target
  std::int64_t mask = 0;
  std::int64_t vocab = 1;  // bound of random tokens
  // By token; false beyond the end.
  std::vector<bool> special = {};    // never a target
  std::vector<bool> continues = {};  // continues a word
};

// Masks `tokens` in place and fills `targets`, of the same length. Deterministic in its arguments.
void mask_tokens(const Masking& masking, std::uint64_t key, std::span<std::int64_t> tokens,
                 std::span<std::int64_t> targets);

// A masked sequence around its text.
struct MaskedFrame {
  Masking masking;
  std::vector<std::int64_t> before = {}, after = {};  // [CLS] and [SEP], or nothing
};

// For the tokenizer of the token files. Throws InputError if it has no mask, or data.whole_words is set and
// it does not mark words.
MaskedFrame masked_frame(const Config& config, const tokenizer::Tokenizer& tokenizer);

// The special tokens around a text: [CLS] and [SEP], or the tokenizer's prefix and suffix.
struct TextFrame {
  std::vector<tokenizer::Id> before, after;
  tokenizer::Id pad = 0;
  bool cuts_front = false;

  explicit TextFrame(const tokenizer::Tokenizer& tokenizer)
      : before(tokenizer.prefix()),
        after(tokenizer.suffix()),
        pad(tokenizer.special().pad.value_or(0)),
        cuts_front(tokenizer.cuts_front()) {
    if (!separates(tokenizer)) return;
    before = {*tokenizer.special().cls};
    after = {*tokenizer.special().sep};
  }

  static bool separates(const tokenizer::Tokenizer& tokenizer) {
    return tokenizer.special().cls && tokenizer.special().sep;
  }
  // Truncates a text to `most` tokens.
  void cut(std::vector<tokenizer::Id>& text, std::size_t most) const {
    if (text.size() <= most) return;
    const auto gone = static_cast<std::ptrdiff_t>(text.size() - most);
    text.erase(cuts_front ? text.begin() : text.end() - gone, cuts_front ? text.begin() + gone : text.end());
  }
  // Special tokens around one text, or around a pair.
  std::size_t size(int texts) const { return before.size() + static_cast<std::size_t>(texts) * after.size(); }
};

}  // namespace twobw::data
