// Vocabulary and added tokens: what all tokenizers except bytes have in common.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace twobw::tokenizer {

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

using IdsByToken = std::unordered_map<std::string, Id, TextHash, std::equal_to<>>;

class Vocabulary {
 public:
  // The last id of a token and the first token of an id win.
  void add(Id id, std::string token);

  std::optional<Id> find(std::string_view token) const;
  const std::string& token(Id id) const;  // empty: unused
  bool has(Id id) const { return id >= 0 && id < size() && !tokens_[static_cast<std::size_t>(id)].empty(); }
  Id size() const { return static_cast<Id>(tokens_.size()); }  // greatest id + 1

 private:
  IdsByToken ids_;
  std::vector<std::string> tokens_;
};

// Token that is matched in a text before any other processing, such as "<|endoftext|>".
struct AddedToken {
  Id id = 0;
  std::string content;
  bool special = false;      // omitted by decoding without special tokens
  bool single_word = false;  // not matched inside a word
  bool strip_left = false;   // removes the spaces before it
  bool strip_right = false;  // removes the spaces after it
  bool normalized = false;   // matched in the normalized text
};

// Finds the longest token at every position of a text.
class TokenFinder {
 public:
  explicit TokenFinder(std::vector<AddedToken> tokens);

  // Calls `text` for the text between tokens and `token` for every token, in order.
  void split(std::string_view whole, const std::function<void(std::string_view)>& text,
             const std::function<void(const AddedToken&)>& token) const;

 private:
  const char* next_start(const char* at, const char* end) const;
  const AddedToken* longest(std::string_view text) const;
  static std::uint64_t edge(std::size_t node, char byte) {
    return static_cast<std::uint64_t>(node) << 8 | static_cast<std::uint8_t>(byte);
  }

  std::vector<AddedToken> tokens_;
  // Trie of their bytes: edges by node and byte, tokens by final node.
  std::unordered_map<std::uint64_t, std::size_t> edges_;
  std::unordered_map<std::size_t, std::size_t> ends_;
  std::array<bool, 256> starts_{};
  std::optional<char> only_start_;
};

class AddedTokens {
 public:
  using Normalize = std::function<std::string(std::string_view)>;

  // An empty `normalize` keeps the text.
  AddedTokens(const std::vector<AddedToken>& tokens, Normalize normalize);

  // Calls `text` for the normalized text between tokens and `token` for every token, in order.
  void split(std::string_view whole, const std::function<void(std::string_view)>& text,
             const std::function<void(Id)>& token) const;

  const AddedToken* find(Id id) const;  // null: not an added token

 private:
  std::unordered_map<Id, AddedToken> by_id_;
  Normalize normalize_;
  TokenFinder raw_, normalized_;
};

// Tokens of a tokenizer beyond its model.
struct SpecialTokens {
  std::vector<AddedToken> added;
  std::vector<Id> prefix, suffix;  // around every sequence
  SpecialIds ids;
  bool cuts_front = false;  // truncation removes the beginning of a text
};

// Base class of tokenizers with a vocabulary and added tokens.
class VocabularyTokenizer : public Tokenizer {
 public:
  std::string token(Id id) const override { return vocabulary_.token(id); }
  std::optional<Id> id(std::string_view token) const override { return vocabulary_.find(token); }
  bool is_special(Id id) const override {
    const AddedToken* const found = added_.find(id);
    return found != nullptr && found->special;
  }
  Id vocab_size() const override { return vocabulary_.size(); }

 protected:
  // Starts with the tokens of the model alone.
  explicit VocabularyTokenizer(Vocabulary vocabulary = {}) : vocabulary_(std::move(vocabulary)) {}
  void add(const SpecialTokens& tokens, AddedTokens::Normalize normalize);

  Vocabulary vocabulary_;
  AddedTokens added_{{}, nullptr};
};

}  // namespace twobw::tokenizer
