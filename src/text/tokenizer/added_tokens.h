// Tokens that are found in a text before anything else is done to it, such as "<|endoftext|>".
#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace twobw::tokenizer {

struct AddedToken {
  Id id = 0;
  std::string content;
  bool special = false;      // left out where a text is decoded without special tokens
  bool single_word = false;  // not inside a word
  bool strip_left = false;   // takes the spaces before it
  bool strip_right = false;  // takes the spaces after it
  bool normalized = false;   // looked for in the normalised text
};

// Several tokens at once: at every place of a text the longest.
class TokenFinder {
 public:
  explicit TokenFinder(std::vector<AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }

  // Calls `text` for what lies between the tokens and `token` for each of them, in order.
  void split(std::string_view whole, const std::function<void(std::string_view)>& text,
             const std::function<void(const AddedToken&)>& token) const;

 private:
  const char* next_start(const char* at, const char* end) const;
  const AddedToken* longest(std::string_view text) const;
  static std::uint64_t edge(std::size_t node, char byte);

  std::vector<AddedToken> tokens_;
  // A tree of their bytes: edges by node and byte, tokens by the node where they end.
  std::unordered_map<std::uint64_t, std::size_t> edges_;
  std::unordered_map<std::size_t, std::size_t> ends_;
  std::array<bool, 256> starts_{};
  std::optional<char> only_start_;
};

class AddedTokens {
 public:
  using Normalize = std::function<std::string(std::string_view)>;

  // `normalize` may be empty: nothing to do.
  AddedTokens(const std::vector<AddedToken>& tokens, Normalize normalize);

  // Calls `text` for normalised text between tokens and `token` for tokens, in order.
  void split(std::string_view whole, const std::function<void(std::string_view)>& text,
             const std::function<void(Id)>& token) const;

  const AddedToken* find(Id id) const;  // null: none

 private:
  std::unordered_map<Id, AddedToken> by_id_;
  Normalize normalize_;
  TokenFinder raw_, normalized_;
};

}  // namespace twobw::tokenizer
