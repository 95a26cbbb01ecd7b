// What lies beside a tokenizer's file and says how transformers uses it: tokenizer_config.json,
// special_tokens_map.json and added_tokens.json.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/json_part.h"
#include "text/tokenizer/vocabulary.h"

namespace twobw::tokenizer {

class Beside {
 public:
  // Special tokens that a class has where nothing names others: {"cls_token", "[CLS]"}.
  using Defaults = std::vector<std::pair<std::string, std::string>>;

  // Each may be missing.
  Beside(std::optional<JsonPart> config = {}, std::optional<JsonPart> special = {},
         std::optional<JsonPart> added = {});

  // tokenizer_class without "Fast"; empty: none is named.
  std::string class_name() const;
  // Whether the class takes tokenizer.json as it is. Others set their own normalizer and splitter.
  bool keeps_json() const;

  // Whether added_tokens_decoder says which tokens are added. Then special_tokens_map.json and
  // added_tokens.json are not looked at.
  bool has_decoder() const;

  // Of tokenizer_config.json.
  std::optional<JsonPart> find(const std::string& key) const;  // nothing where it is missing or null
  std::optional<bool> flag(const std::string& key) const;

  // A special token ("bos_token"); nothing where it is missing or null.
  std::optional<std::string> special(const std::string& key) const;

  // Whether long texts lose their beginning. `otherwise`: where nothing is said.
  bool cuts_front(bool otherwise) const;

  // Completes the tokens that a text is searched for. New ones have the ids after all others; a file that
  // gives them another id is refused. Defaults count where the vocabulary has them.
  void complete(std::vector<AddedToken>& added, const Vocabulary& vocabulary,
                const Defaults& defaults = {}) const;

 private:
  std::optional<JsonPart> value(const std::string& key) const;
  bool mentions(const std::string& key) const;
  std::vector<AddedToken> named(const Vocabulary& vocabulary, const Defaults& defaults) const;
  std::vector<AddedToken> models_own() const;
  std::vector<AddedToken> extra() const;

  std::optional<JsonPart> config_, special_, added_;
};

}  // namespace twobw::tokenizer
