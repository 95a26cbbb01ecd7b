#include "text/tokenizer/companion_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <unordered_map>

namespace twobw::tokenizer {
namespace {

struct SpecialName {
  const char* key;
  std::optional<Id> SpecialIds::*id;
};

// In the order of new ids.
constexpr std::array<SpecialName, 7> kNames = {{{"bos_token", &SpecialIds::bos},
                                                {"eos_token", &SpecialIds::eos},
                                                {"unk_token", &SpecialIds::unk},
                                                {"sep_token", &SpecialIds::sep},
                                                {"pad_token", &SpecialIds::pad},
                                                {"cls_token", &SpecialIds::cls},
                                                {"mask_token", &SpecialIds::mask}}};

bool has(const std::optional<JsonField>& part, const std::string& key) {
  return part && part->object().contains(key);
}

std::optional<JsonField> find_in(const std::optional<JsonField>& part, const std::string& key) {
  return part ? part->find(key) : std::nullopt;
}

// Reads a string, or an object with the key "content".
AddedToken special_token(const JsonField& part) {
  AddedToken token;
  if (part.is_text()) {
    token.content = part.text();
  } else {
    token = read_added_token(part, 0);
  }
  token.special = true;
  return token;
}

void add_list(const std::optional<JsonField>& list, std::vector<AddedToken>& tokens) {
  if (!list || !list->is_list()) return;
  for (const JsonField& item : list->items()) tokens.push_back(special_token(item));
}

// True for a special token of one model, such as "image_token".
bool is_model_token(const std::string& key) {
  const auto has_key = [&](const SpecialName& name) { return name.key == key; };
  return key.ends_with("_token") && std::ranges::none_of(kNames, has_key);
}

void add_model_tokens(const std::optional<JsonField>& part, std::vector<AddedToken>& tokens) {
  if (!part) return;
  for (const auto& [key, value] : part->entries()) {
    if (is_model_token(key) && value.is_text()) tokens.push_back(special_token(value));
  }
  const std::optional<JsonField> extra = part->find("extra_special_tokens");
  if (!extra || extra->is_list()) return;
  for (const auto& [key, value] : extra->entries()) tokens.push_back(special_token(value));
}

// Adds tokens and their ids to a list.
class Completion {
 public:
  Completion(std::vector<AddedToken>& added, const Vocabulary& vocabulary)
      : added_(added), vocabulary_(vocabulary), next_(vocabulary.size()) {
    for (std::size_t i = 0; i < added.size(); ++i) {
      places_.try_emplace(added[i].content, i);
      next_ = std::max(next_, added[i].id + 1);
    }
  }

  bool knows(const std::string& content) const {
    return places_.contains(content) || vocabulary_.find(content);
  }

  // Adds a special token without an id.
  void add(AddedToken token) {
    if (token.content.empty()) return;
    if (const auto found = places_.find(token.content); found != places_.end()) {
      added_[found->second].special = true;
      return;
    }
    token.id = id_of(token.content);
    append(std::move(token));
  }

  // Adds a token with an id; `replace` overwrites a known one.
  void set(AddedToken token, const JsonField& part, bool replace) {
    const auto found = places_.find(token.content);
    const bool there = found != places_.end();
    const Id id = there ? added_[found->second].id : id_of(token.content);
    if (token.id != id) {
      part.refuse(fmt::format(
          "have the id {}, which transformers gives it: its id in the vocabulary, or the next one", id));
    }
    if (!there) return append(std::move(token));
    if (replace) added_[found->second] = std::move(token);
  }

 private:
  Id id_of(const std::string& content) const { return vocabulary_.find(content).value_or(next_); }
  void append(AddedToken token) {
    next_ = std::max(next_, token.id + 1);
    places_.try_emplace(token.content, added_.size());
    added_.push_back(std::move(token));
  }

  std::vector<AddedToken>& added_;
  const Vocabulary& vocabulary_;
  std::unordered_map<std::string, std::size_t> places_;
  Id next_;
};

using Placed = std::vector<std::pair<AddedToken, JsonField>>;

void sort_by_id(Placed& tokens) {
  std::ranges::stable_sort(tokens, {}, [](const auto& token) { return token.first.id; });
}

// "added_tokens_decoder": {"151643": {"content": ...}}
Placed read_decoder(const JsonField& decoder) {
  Placed tokens;
  for (const auto& [key, part] : decoder.entries()) {
    const bool digits =
        !key.empty() && key.size() < 10 && key.find_first_not_of("0123456789") == std::string::npos;
    if (!digits) part.refuse("have an id as its key");
    tokens.emplace_back(read_added_token(part, std::stoi(key)), part);
  }
  sort_by_id(tokens);
  return tokens;
}

// {"<|user|>": 50257}; ids may exceed the size of the file.
Placed read_added_file(const JsonField& file) {
  Placed tokens;
  for (const auto& [content, part] : file.entries()) {
    tokens.emplace_back(
        AddedToken{.id = static_cast<Id>(part.whole()), .content = content, .normalized = true}, part);
  }
  sort_by_id(tokens);
  return tokens;
}

}  // namespace

CompanionConfig::CompanionConfig(std::optional<JsonField> config, std::optional<JsonField> special,
                                 std::optional<JsonField> added)
    : config_(std::move(config)), special_(std::move(special)), added_(std::move(added)) {
  const std::optional<JsonField> splits = find("split_special_tokens");
  if (splits && splits->flag()) splits->refuse("be false: special tokens in a text are recognized");
}

std::string CompanionConfig::class_name() const {
  const std::optional<JsonField> named = find("tokenizer_class");
  std::string name = named ? named->text() : "";
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  return name;
}

bool CompanionConfig::keeps_json() const {
  // With byte-level BPE LlamaTokenizer uses the file unchanged.
  const std::string name = class_name();
  return name == "PreTrainedTokenizer" || name == "TokenizersBackend" || name == "LlamaTokenizer";
}

std::optional<JsonField> CompanionConfig::find(const std::string& key) const {
  return find_in(config_, key);
}

std::optional<bool> CompanionConfig::flag(const std::string& key) const {
  const std::optional<JsonField> found = find(key);
  return found ? std::optional(found->flag()) : std::nullopt;
}

bool CompanionConfig::has_decoder() const {
  return has(config_, "added_tokens_decoder");
}

std::optional<JsonField> CompanionConfig::value(const std::string& key) const {
  return find_in(!has_decoder() && has(special_, key) ? special_ : config_, key);
}

bool CompanionConfig::mentions(const std::string& key) const {
  return has(config_, key) || (!has_decoder() && has(special_, key));
}

std::optional<std::string> CompanionConfig::special(const std::string& key) const {
  const std::optional<JsonField> found = value(key);
  return found ? std::optional(special_token(*found).content) : std::nullopt;
}

bool CompanionConfig::cuts_front(bool otherwise) const {
  const std::optional<JsonField> side = find("truncation_side");
  if (!side) return otherwise;
  const std::string text = side->text();
  if (text != "left" && text != "right") side->refuse("be \"left\" or \"right\"");
  return text == "left";
}

std::vector<AddedToken> CompanionConfig::named_tokens(const Vocabulary& vocabulary,
                                                      const Defaults& defaults) const {
  std::vector<AddedToken> tokens;
  for (const SpecialName& name : kNames) {
    if (const std::optional<JsonField> given = value(name.key)) tokens.push_back(special_token(*given));
    if (mentions(name.key)) continue;
    for (const auto& [key, content] : defaults) {
      if (key == name.key && vocabulary.find(content))
        tokens.push_back({.content = content, .special = true});
    }
  }
  return tokens;
}

std::vector<AddedToken> CompanionConfig::model_tokens() const {
  std::vector<AddedToken> tokens;
  add_model_tokens(config_, tokens);
  if (!has_decoder()) add_model_tokens(special_, tokens);
  return tokens;
}

// The older key is used if the newer one is missing or empty. special_tokens_map.json extends the list of
// tokenizer_config.json under the newer key; its older key is used if no other list exists.
std::vector<AddedToken> CompanionConfig::extra_tokens() const {
  const char* const kNewer = "extra_special_tokens";
  const char* const kOlder = "additional_special_tokens";
  std::vector<AddedToken> tokens;
  add_list(find(kNewer), tokens);
  if (tokens.empty()) add_list(find(kOlder), tokens);
  if (has_decoder()) return tokens;
  const bool listed = has(config_, kNewer) || has(config_, kOlder) || has(special_, kNewer);
  add_list(find_in(special_, listed ? kNewer : kOlder), tokens);
  return tokens;
}

void CompanionConfig::add_tokens(std::vector<AddedToken>& added, const Vocabulary& vocabulary,
                                 const Defaults& defaults) const {
  Completion completion(added, vocabulary);
  const std::vector<AddedToken> names = named_tokens(vocabulary, defaults), own = model_tokens(),
                                others = extra_tokens();
  const auto is_special = [&](const AddedToken& token) {
    const auto same = [&](const AddedToken& other) { return other.content == token.content; };
    return std::ranges::any_of(names, same) || std::ranges::any_of(others, same);
  };
  if (has_decoder()) {
    if (const std::optional<JsonField> decoder = find("added_tokens_decoder")) {
      for (auto& [token, part] : read_decoder(*decoder)) completion.set(std::move(token), part, true);
    }
  } else if (added_) {
    for (auto& [token, part] : read_added_file(*added_)) {
      token.special = is_special(token);
      token.normalized = !token.special;
      completion.set(std::move(token), part, false);
    }
  }
  for (const AddedToken& token : names) completion.add(token);
  // Keys of an object have no order here, so the ids of two new tokens would be ambiguous.
  const auto is_new = [&](const AddedToken& token) { return !completion.knows(token.content); };
  if (std::ranges::count_if(own, is_new) > 1)
    config_->refuse(
        "list new tokens of its own, such as image_token, in added_tokens_decoder, with their ids");
  for (const AddedToken& token : own) completion.add(token);
  for (const AddedToken& token : others) completion.add(token);
}

SpecialIds CompanionConfig::special_ids(const std::vector<AddedToken>& added) const {
  const auto find_first = [&](std::initializer_list<std::string_view> contents) -> std::optional<Id> {
    for (const std::string_view content : contents) {
      const auto found = std::ranges::find(added, content, &AddedToken::content);
      if (found != added.end()) return found->id;
    }
    return std::nullopt;
  };
  SpecialIds ids = {
      .bos = find_first({"<|begin_of_text|>", "<s>", "<|endoftext|>"}),
      .eos = find_first({"<|end_of_text|>", "</s>", "<|endoftext|>"}),
      .pad = find_first({"<pad>", "[PAD]"}),
      .unk = find_first({"<unk>", "[UNK]"}),
      .cls = find_first({"[CLS]"}),
      .sep = find_first({"[SEP]"}),
      .mask = find_first({"[MASK]", "<mask>"}),
  };
  for (const SpecialName& name : kNames) {
    const std::optional<std::string> content = special(name.key);
    if (const std::optional<Id> id = content ? find_first({*content}) : std::nullopt) ids.*name.id = id;
  }
  return ids;
}

void CompanionConfig::complete(SpecialTokens& tokens, const Vocabulary& vocabulary,
                               const Defaults& defaults) const {
  add_tokens(tokens.added, vocabulary, defaults);
  tokens.cuts_front = cuts_front(tokens.cuts_front);
  tokens.ids = special_ids(tokens.added);
}

AddedToken read_added_token(const JsonField& part, Id id) {
  return {.id = id,
          .content = part["content"].text(),
          .special = part.flag("special", false),
          .single_word = part.flag("single_word", false),
          .strip_left = part.flag("lstrip", false),
          .strip_right = part.flag("rstrip", false),
          .normalized = part.flag("normalized", false)};
}

}  // namespace twobw::tokenizer
