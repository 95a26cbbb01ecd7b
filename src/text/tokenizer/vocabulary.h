// Tokens by id and ids by token.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
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
  // Of two ids of one token the last counts, of two tokens of one id the first.
  void add(Id id, std::string token);

  std::optional<Id> find(std::string_view token) const;
  const std::string& token(Id id) const;  // empty: not used
  bool has(Id id) const { return id >= 0 && id < size() && !tokens_[static_cast<std::size_t>(id)].empty(); }
  Id size() const { return static_cast<Id>(tokens_.size()); }  // one more than the greatest id

 private:
  IdsByToken ids_;
  std::vector<std::string> tokens_;
};

}  // namespace twobw::tokenizer
