#include "text/tokenizer/beside.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>

#include "text/tokenizer/json_frame.h"

namespace twobw::tokenizer {
namespace {

// In the order in which they get ids.
constexpr std::array<const char*, 7> kNames = {"bos_token", "eos_token", "unk_token", "sep_token",
                                               "pad_token", "cls_token", "mask_token"};

bool has(const std::optional<JsonPart>& part, const std::string& key) {
  return part && part->object().contains(key);
}

std::optional<JsonPart> find_in(const std::optional<JsonPart>& part, const std::string& key) {
  return part ? part->find(key) : std::nullopt;
}

// Text, or an object with its text as "content".
AddedToken special_token(const JsonPart& part) {
  AddedToken token;
  if (part.is_text()) {
    token.content = part.text();
  } else {
    token = read_added_token(part, 0);
  }
  token.special = true;
  return token;
}

void add_list(const std::optional<JsonPart>& list, std::vector<AddedToken>& tokens) {
  if (!list || !list->is_list()) return;
  for (const JsonPart& item : list->items()) tokens.push_back(special_token(item));
}

// "image_token": "<image>", beside those that every tokenizer has.
bool is_models_own(const std::string& key) {
  return key.ends_with("_token") && std::ranges::find(kNames, key) == kNames.end();
}

void add_models_own(const std::optional<JsonPart>& part, std::vector<AddedToken>& tokens) {
  if (!part) return;
  for (const auto& [key, value] : part->entries()) {
    if (is_models_own(key) && value.is_text()) tokens.push_back(special_token(value));
  }
  const std::optional<JsonPart> extra = part->find("extra_special_tokens");
  if (!extra || extra->is_list()) return;
  for (const auto& [key, value] : extra->entries()) tokens.push_back(special_token(value));
}

// Adds tokens to those that are there already.
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

  // A special token, whose id no file says.
  void add(AddedToken token) {
    if (token.content.empty()) return;
    if (const auto found = places_.find(token.content); found != places_.end()) {
      added_[found->second].special = true;
      return;
    }
    token.id = id_of(token.content);
    append(std::move(token));
  }

  // A token with the id that a file says. One that is there already changes where `again`.
  void set(AddedToken token, const JsonPart& part, bool again) {
    const auto found = places_.find(token.content);
    const bool there = found != places_.end();
    const Id id = there ? added_[found->second].id : id_of(token.content);
    if (token.id != id) {
      part.refuse(fmt::format(
          "have the id {}, which transformers gives it: its id in the vocabulary, or the next one", id));
    }
    if (!there) return append(std::move(token));
    if (again) added_[found->second] = std::move(token);
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

using Placed = std::vector<std::pair<AddedToken, JsonPart>>;

void sort_by_id(Placed& tokens) {
  std::ranges::stable_sort(tokens, {}, [](const auto& token) { return token.first.id; });
}

// "added_tokens_decoder": {"151643": {"content": ...}}
Placed read_decoder(const JsonPart& decoder) {
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

// {"<|user|>": 50257}; ids may be far above the bytes of the file.
Placed read_added_file(const JsonPart& file) {
  Placed tokens;
  for (const auto& [content, part] : file.entries()) {
    tokens.emplace_back(
        AddedToken{.id = static_cast<Id>(part.whole()), .content = content, .normalized = true}, part);
  }
  sort_by_id(tokens);
  return tokens;
}

}  // namespace

Beside::Beside(std::optional<JsonPart> config, std::optional<JsonPart> special, std::optional<JsonPart> added)
    : config_(std::move(config)), special_(std::move(special)), added_(std::move(added)) {
  const std::optional<JsonPart> splits = find("split_special_tokens");
  if (splits && splits->flag()) splits->refuse("be false: special tokens in a text are recognised");
}

std::string Beside::class_name() const {
  const std::optional<JsonPart> named = find("tokenizer_class");
  std::string name = named ? named->text() : "";
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  return name;
}

bool Beside::keeps_json() const {
  // LlamaTokenizer is another class for a tokenizer.json of byte-level BPE.
  const std::string name = class_name();
  return name == "PreTrainedTokenizer" || name == "TokenizersBackend" || name == "LlamaTokenizer";
}

std::optional<JsonPart> Beside::find(const std::string& key) const {
  return find_in(config_, key);
}

std::optional<bool> Beside::flag(const std::string& key) const {
  const std::optional<JsonPart> found = find(key);
  return found ? std::optional(found->flag()) : std::nullopt;
}

bool Beside::has_decoder() const {
  return has(config_, "added_tokens_decoder");
}

std::optional<JsonPart> Beside::value(const std::string& key) const {
  return find_in(!has_decoder() && has(special_, key) ? special_ : config_, key);
}

bool Beside::mentions(const std::string& key) const {
  return has(config_, key) || (!has_decoder() && has(special_, key));
}

std::optional<std::string> Beside::special(const std::string& key) const {
  const std::optional<JsonPart> found = value(key);
  return found ? std::optional(special_token(*found).content) : std::nullopt;
}

bool Beside::cuts_front(bool otherwise) const {
  const std::optional<JsonPart> side = find("truncation_side");
  if (!side) return otherwise;
  const std::string text = side->text();
  if (text != "left" && text != "right") side->refuse("be \"left\" or \"right\"");
  return text == "left";
}

std::vector<AddedToken> Beside::named(const Vocabulary& vocabulary, const Defaults& defaults) const {
  std::vector<AddedToken> tokens;
  for (const char* const name : kNames) {
    if (const std::optional<JsonPart> given = value(name)) tokens.push_back(special_token(*given));
    if (mentions(name)) continue;
    for (const auto& [key, content] : defaults) {
      if (key == name && vocabulary.find(content)) tokens.push_back({.content = content, .special = true});
    }
  }
  return tokens;
}

std::vector<AddedToken> Beside::models_own() const {
  std::vector<AddedToken> tokens;
  add_models_own(config_, tokens);
  if (!has_decoder()) add_models_own(special_, tokens);
  return tokens;
}

// The older key counts where the newer one is missing or empty. A list of special_tokens_map.json joins that
// of tokenizer_config.json under the newer key, and counts alone under the older one.
std::vector<AddedToken> Beside::extra() const {
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

void Beside::complete(std::vector<AddedToken>& added, const Vocabulary& vocabulary,
                      const Defaults& defaults) const {
  Completion completion(added, vocabulary);
  const std::vector<AddedToken> names = named(vocabulary, defaults), own = models_own(), others = extra();
  const auto is_special = [&](const AddedToken& token) {
    const auto same = [&](const AddedToken& other) { return other.content == token.content; };
    return std::ranges::any_of(names, same) || std::ranges::any_of(others, same);
  };
  if (has_decoder()) {
    if (const std::optional<JsonPart> decoder = find("added_tokens_decoder")) {
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
  // The keys of an object have no order here, so that two of them could not be given the next ids.
  const auto is_new = [&](const AddedToken& token) { return !completion.knows(token.content); };
  if (std::ranges::count_if(own, is_new) > 1)
    config_->refuse(
        "list new tokens of its own, such as image_token, in added_tokens_decoder, with their ids");
  for (const AddedToken& token : own) completion.add(token);
  for (const AddedToken& token : others) completion.add(token);
}

}  // namespace twobw::tokenizer
