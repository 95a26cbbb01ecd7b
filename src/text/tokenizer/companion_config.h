// Companion files of a tokenizer (tokenizer_config.json, special_tokens_map.json, added_tokens.json), with
// the meaning that transformers gives them.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json.h"
#include "text/tokenizer/vocabulary.h"

namespace twobw::tokenizer {

class CompanionConfig {
 public:
  // Default special tokens of a class: {"cls_token", "[CLS]"}.
  using Defaults = std::vector<std::pair<std::string, std::string>>;

  // Every file is optional.
  CompanionConfig(std::optional<JsonField> config = {}, std::optional<JsonField> special = {},
                  std::optional<JsonField> added = {});

  // tokenizer_class without "Fast"; empty: missing.
  std::string class_name() const;
  // True if the class uses tokenizer.json unchanged. Other classes replace its normalizer and splitter.
  bool keeps_json() const;

  // True if added_tokens_decoder lists the added tokens; special_tokens_map.json and added_tokens.json are
  // ignored then.
  bool has_decoder() const;

  // Keys of tokenizer_config.json; nothing: missing or null.
  std::optional<JsonField> find(const std::string& key) const;
  std::optional<bool> flag(const std::string& key) const;
  bool flag(const std::string& key, bool otherwise) const { return flag(key).value_or(otherwise); }

  // Content of a special token ("bos_token"); nothing: missing or null.
  std::optional<std::string> special(const std::string& key) const;

  // Adds the tokens, special ids and the side of truncation that these files set. New tokens get the ids
  // after all others; InputError if a file gives them another id. Defaults apply if the vocabulary has them.
  void complete(SpecialTokens& tokens, const Vocabulary& vocabulary, const Defaults& defaults = {}) const;

 private:
  std::optional<JsonField> value(const std::string& key) const;
  bool mentions(const std::string& key) const;
  void add_tokens(std::vector<AddedToken>& added, const Vocabulary& vocabulary,
                  const Defaults& defaults) const;
  std::vector<AddedToken> named_tokens(const Vocabulary& vocabulary, const Defaults& defaults) const;
  std::vector<AddedToken> model_tokens() const;
  std::vector<AddedToken> extra_tokens() const;
  SpecialIds special_ids(const std::vector<AddedToken>& added) const;
  bool cuts_front(bool otherwise) const;

  std::optional<JsonField> config_, special_, added_;
};

// Reads an entry of "added_tokens".
AddedToken read_added_token(const JsonField& part, Id id);

}  // namespace twobw::tokenizer
