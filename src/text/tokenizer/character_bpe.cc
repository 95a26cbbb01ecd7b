#include "text/tokenizer/character_bpe.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "core/base/error.h"
#include "text/tokenizer/readers.h"
#include "text/tokenizer/utf8.h"

namespace twobw::tokenizer {
namespace {

AddedTokens::Normalize marking(SpaceMarks marks) {
  if (marks == SpaceMarks::kNormalized) return mark_spaces;
  if (marks != SpaceMarks::kPrepended) return nullptr;
  return [](std::string_view text) { return std::string(kSpaceMark) + mark_spaces(text); };
}

std::optional<char> shown_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  unsigned value = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
  if (error != std::errc() || end != token.data() + 5) return std::nullopt;
  return static_cast<char>(value);
}

std::string shown_text(std::string_view token) {
  if (const std::optional<char> byte = shown_byte(token)) return {*byte};
  return unmark_spaces(token);
}

}  // namespace

std::string mark_spaces(std::string_view text) {
  return replaced(text, " ", kSpaceMark);
}

std::string unmark_spaces(std::string_view text) {
  return replaced(text, kSpaceMark, " ");
}

std::string byte_token(std::uint8_t byte) {
  return fmt::format("<0x{:02X}>", byte);
}

CharacterBpe::CharacterBpe(CharacterBpeModel model, const SpecialTokens& tokens)
    : VocabularyTokenizer(std::move(model.vocabulary)), model_(std::move(model)) {
  for (std::size_t byte = 0; byte < bytes_.size(); ++byte) {
    const std::optional<Id> id = vocabulary_.find(byte_token(static_cast<std::uint8_t>(byte)));
    TWOBW_ASSERT(id, "byte {} has no token", byte);
    bytes_[byte] = *id;
  }
  // Added tokens are not tokens of the model and follow below.
  for (Id id = 0; id < vocabulary_.size(); ++id) {
    const std::string& token = vocabulary_.token(id);
    if (token.empty()) continue;
    const Character first = read_character(token.data(), token.data() + token.size());
    if (first.valid && static_cast<std::size_t>(first.length) == token.size())
      characters_[first.code] = *vocabulary_.find(token);
  }
  const AddedTokens::Normalize mark = marking(model_.marks);
  add(tokens, mark);
  texts_.reserve(static_cast<std::size_t>(vocabulary_.size()));
  for (Id id = 0; id < vocabulary_.size(); ++id) texts_.push_back(shown_text(vocabulary_.token(id)));
  // Added tokens are decoded as they are matched.
  for (const AddedToken& token : tokens.added) {
    const bool marked = mark && token.normalized;
    texts_[static_cast<std::size_t>(token.id)] = shown_text(marked ? mark(token.content) : token.content);
  }
}

void CharacterBpe::encode(std::string_view text, std::vector<Id>& ids) const {
  const std::string valid = replace_invalid(text);
  added_.split(
      valid, [&](std::string_view part) { encode_part(part, part.data() == valid.data(), ids); },
      [&](Id id) { ids.push_back(id); });
}

void CharacterBpe::encode_part(std::string_view part, bool at_start, std::vector<Id>& ids) const {
  if (model_.marks == SpaceMarks::kNormalized || model_.marks == SpaceMarks::kPrepended)
    return encode_marked(part, ids);
  std::string marked = mark_spaces(part);
  const bool begins = model_.marks == SpaceMarks::kAlways || (model_.marks == SpaceMarks::kFirst && at_start);
  if (begins && !marked.starts_with(kSpaceMark)) marked.insert(0, kSpaceMark);
  encode_marked(marked, ids);
}

void CharacterBpe::encode_marked(std::string_view text, std::vector<Id>& ids) const {
  std::vector<Id> found;
  found.reserve(text.size());
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    const Character character = read_character(at, end);
    const char* const next = at + character.length;
    if (const auto known = characters_.find(character.code); known != characters_.end()) {
      found.push_back(known->second);
    } else {
      for (; at < next; ++at) found.push_back(bytes_[static_cast<std::uint8_t>(*at)]);
    }
    at = next;
  }
  merge_word(model_.merges, found);
  ids.insert(ids.end(), found.begin(), found.end());
}

void CharacterBpe::append_text(Id id, bool first, std::string& text) const {
  if (id < 0 || id >= vocab_size()) return;
  const std::string_view piece = texts_[static_cast<std::size_t>(id)];
  text += first && model_.strip && piece.starts_with(' ') ? piece.substr(1) : piece;
}

// Reader of tokenizer.json, in the forms that transformers 4 and 5 write for Llama 2, Mistral and similar
// models.

namespace {

[[noreturn]] void refuse_for(const JsonField& part, std::string_view must) {
  part.refuse(fmt::format("{} for BPE with byte_fallback", must));
}

void require_text(const JsonField& part, const std::string& key, std::string_view text) {
  if (part[key].text() != text) refuse_for(part[key], fmt::format("be \"{}\"", text));
}

void require_type(const JsonField& part, std::string_view type) {
  if (part.type() != type) refuse_for(part["type"], fmt::format("be {}", type));
}

void require_count(const JsonField& part, const std::string& key, std::int64_t count) {
  if (part[key].whole() != count) refuse_for(part[key], fmt::format("be {}", count));
}

// {"type": "Replace", "pattern": {"String": from}, "content": to}
void require_replace(const JsonField& part, std::string_view from, std::string_view to) {
  require_type(part, "Replace");
  require_text(part["pattern"], "String", from);
  require_text(part, "content", to);
}

SpaceMarks read_normalizer(const JsonField& part) {
  const std::vector<JsonField> steps =
      part.type() == "Sequence" ? part["normalizers"].items() : std::vector{part};
  if (steps.empty() || steps.size() > 2) refuse_for(part["normalizers"], "be Prepend and Replace");
  if (steps.size() == 2) {
    require_type(steps[0], "Prepend");
    require_text(steps[0], "prepend", kSpaceMark);
  }
  require_replace(steps.back(), " ", kSpaceMark);
  return steps.size() == 2 ? SpaceMarks::kPrepended : SpaceMarks::kNormalized;
}

SpaceMarks read_metaspace(const JsonField& part) {
  require_type(part, "Metaspace");
  constexpr std::string_view kKeys[] = {"type", "replacement", "prepend_scheme", "split"};
  part.allow(kKeys);
  require_text(part, "replacement", kSpaceMark);
  if (part["split"].flag()) refuse_for(part["split"], "be false");
  const std::string scheme = part["prepend_scheme"].text();
  if (scheme == "first") return SpaceMarks::kFirst;
  if (scheme == "always") return SpaceMarks::kAlways;
  if (scheme == "never") return SpaceMarks::kReplaced;
  part["prepend_scheme"].refuse("be \"first\", \"always\" or \"never\"");
}

SpaceMarks read_marks(const JsonField& root) {
  const std::optional<JsonField> normalizer = root.find("normalizer");
  if (!normalizer) return read_metaspace(root["pre_tokenizer"]);
  if (const std::optional<JsonField> words = root.find("pre_tokenizer"))
    refuse_for(*words, "be null beside a normalizer");
  return read_normalizer(*normalizer);
}

// True if decoding strips a leading space.
bool read_strip(const JsonField& part) {
  require_type(part, "Sequence");
  const std::vector<JsonField> steps = part["decoders"].items();
  if (steps.size() < 3 || steps.size() > 4)
    refuse_for(part["decoders"], "be Replace, ByteFallback, Fuse and perhaps Strip");
  require_replace(steps[0], kSpaceMark, " ");
  require_type(steps[1], "ByteFallback");
  require_type(steps[2], "Fuse");
  if (steps.size() == 3) return false;
  require_type(steps[3], "Strip");
  require_text(steps[3], "content", " ");
  require_count(steps[3], "start", 1);
  require_count(steps[3], "stop", 0);
  return true;
}

void read_characters(const JsonField& part, CharacterBpeModel& model) {
  check_bpe(part);
  require_empty(part, "continuing_subword_prefix");
  require_empty(part, "end_of_word_suffix");
  require_off(part, "ignore_merges");
  model.vocabulary = read_vocabulary(part["vocab"]);
  for (int byte = 0; byte < 256; ++byte) {
    const std::string token = byte_token(static_cast<std::uint8_t>(byte));
    if (!model.vocabulary.find(token)) refuse_for(part["vocab"], fmt::format("hold {}", token));
  }
  // Every character has bytes, so the unknown token is never used.
  const std::optional<JsonField> unknown = part.find("unk_token");
  if (unknown && !model.vocabulary.find(unknown->text())) unknown->refuse("be in the vocabulary");
  model.merges = read_merges(model.vocabulary, part["merges"]);
}

// LlamaTokenizer of transformers 5 uses the vocabulary, the merges and the post-processor, and the added
// tokens unless added_tokens_decoder lists them.
bool sets_llama(const CompanionConfig& companion) {
  const std::string name = companion.class_name();
  if (name.empty() || name == "PreTrainedTokenizer" || name == "TokenizersBackend") return false;
  if (name != "LlamaTokenizer")
    refuse_for(*companion.find("tokenizer_class"), "be LlamaTokenizer or PreTrainedTokenizerFast");
  return true;
}

void set_llama(const CompanionConfig& companion, CharacterBpeModel& model) {
  model.strip = companion.flag("add_prefix_space", true);
  model.marks = !model.strip                      ? SpaceMarks::kReplaced
                : companion.flag("legacy", false) ? SpaceMarks::kAlways
                                                  : SpaceMarks::kFirst;
}

}  // namespace

bool is_character_bpe(const JsonField& model) {
  return model.flag("byte_fallback", false);
}

std::unique_ptr<Tokenizer> read_character_bpe(const JsonField& root, const CompanionConfig& companion,
                                              SpecialTokens tokens) {
  CharacterBpeModel model;
  model.marks = read_marks(root);
  model.strip = read_strip(root["decoder"]);
  read_characters(root["model"], model);
  CompanionConfig::Defaults defaults;
  if (sets_llama(companion)) {
    set_llama(companion, model);
    if (companion.has_decoder()) tokens.added.clear();
    defaults = {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}};
  }
  companion.complete(tokens, model.vocabulary, defaults);
  return std::make_unique<CharacterBpe>(std::move(model), std::move(tokens));
}

}  // namespace twobw::tokenizer
