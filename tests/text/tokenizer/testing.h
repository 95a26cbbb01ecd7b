// Small tokenizers and texts for the tests.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/text/corpus/testing.h"
#include "text/tokenizer/readers.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/train_bpe.h"

namespace twobw::tokenizer::testing {

using corpus::testing::Folder;
using corpus::testing::has;

inline std::vector<Id> encoded(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<Id> ids;
  tokenizer.encode(text, ids);
  return ids;
}

inline std::vector<std::string> tokens_of(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::string> tokens;
  for (const Id id : encoded(tokenizer, text)) tokens.push_back(tokenizer.token(id));
  return tokens;
}

inline std::unique_ptr<Tokenizer> from_json(const std::string& text) {
  const JsonDocument document(text, "tokenizer 'test'");
  return read_tokenizer_json(document.root(), {});
}

constexpr const char* kProse =
    "The quick brown fox jumps over the lazy dog. The dog sleeps, the fox doesn't; it's quick and it jumps "
    "again and again over the same dog. In 1999 the fox jumped 1234 times.\n\nThe dog counted: 1, 2, 3 ... "
    "1234.\n";

inline LearnedBpe learned(std::size_t tokens, std::string_view text = kProse) {
  WordCounts words({});
  words.add(text);
  return learn_bpe(words, tokens, 2);
}

inline std::string small_json() {
  return tokenizer_json(learned(320), {"<|endoftext|>"});
}

// Random sequence of characters that tokenizers treat differently, and of invalid bytes.
inline std::string wild_text(std::uint32_t seed, int parts) {
  // clang-format off
  static const std::vector<std::string> kParts = {
      "a", "the", "The", " ", "  ", "\t", "\n", "\r\n", "\n\n", "\u00A0", "\u3000", "\u2028", "'s",
      "'LL", "'", "n't", "12", "3456", "\u0663", "\u00BD", ".", "...", "!?", "<|endoftext|>", "<|end",
      "\u00E9", "e\u0301", "\u4E2D\u6587", "\uD55C", "\U0001F468\u200D\U0001F469",
      "\U0001F1E9\U0001F1EA", "\uFFFD", "\uFEFF", std::string(1, '\0'), "\x01", "\x7F", "\xC3", "\x80",
      "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82", "\u017F", "'\u017F", "\u0130"};
  // clang-format on
  std::mt19937 random(seed);
  std::string text;
  for (int i = 0; i < parts; ++i) text += kParts[random() % kParts.size()];
  return text;
}

}  // namespace twobw::tokenizer::testing
