// WordPiece from tokenizer.json or vocab.txt.
#include "text/tokenizer/word_piece.h"

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "core/base/json.h"
#include "text/tokenizer/readers.h"

namespace twobw::tokenizer {
namespace {

constexpr std::array<const char*, 3> kBertText = {"do_lower_case", "strip_accents", "tokenize_chinese_chars"};

// True if BERT's class overrides the normalizer of tokenizer.json.
bool sets_bert_normalizer(const CompanionConfig& companion) {
  if (companion.keeps_json()) return false;
  return companion.class_name() == "BertTokenizer" ||
         std::ranges::any_of(kBertText, [&](const char* key) { return companion.find(key).has_value(); });
}

BertNormalizer bert_normalizer(const CompanionConfig& companion) {
  const bool lower_case = companion.flag("do_lower_case", true);
  return {.space_ideographs = companion.flag("tokenize_chinese_chars", true),
          .strip_accents = companion.flag("strip_accents", lower_case),
          .lower_case = lower_case};
}

CompanionConfig::Defaults bert_tokens() {
  return {{"unk_token", "[UNK]"},
          {"sep_token", "[SEP]"},
          {"pad_token", "[PAD]"},
          {"cls_token", "[CLS]"},
          {"mask_token", "[MASK]"}};
}

// True if BERT's class sets prefix and suffix.
bool sets_bert_ends(const CompanionConfig& companion) {
  return sets_bert_normalizer(companion) ||
         (!companion.keeps_json() && (companion.special("cls_token") || companion.special("sep_token")));
}

void set_bert_ends(SpecialTokens& tokens) {
  tokens.prefix.clear();
  tokens.suffix.clear();
  if (tokens.ids.cls) tokens.prefix = {*tokens.ids.cls};
  if (tokens.ids.sep) tokens.suffix = {*tokens.ids.sep};
}

BertNormalizer read_bert_normalizer(const JsonField& part) {
  if (part.type() != "BertNormalizer") part["type"].refuse("be BertNormalizer for WordPiece");
  const bool lower_case = part.flag("lowercase", true);
  return {.clean = part.flag("clean_text", true),
          .space_ideographs = part.flag("handle_chinese_chars", true),
          .strip_accents = part.flag("strip_accents", lower_case),
          .lower_case = lower_case};
}

}  // namespace

std::unique_ptr<Tokenizer> read_word_piece(const JsonField& root, const CompanionConfig& companion,
                                           SpecialTokens tokens) {
  constexpr std::string_view kKeys[] = {"type", "unk_token", "continuing_subword_prefix",
                                        "max_input_chars_per_word", "vocab"};
  const JsonField part = root["model"];
  part.allow(kKeys);
  WordPieceModel model;
  model.vocabulary = read_vocabulary(part["vocab"]);
  const std::optional<Id> unknown = model.vocabulary.find(part["unk_token"].text());
  if (!unknown) part["unk_token"].refuse("be in the vocabulary");
  model.unknown = *unknown;
  if (const auto mark = part.find("continuing_subword_prefix")) model.continuing = mark->text();
  if (const auto longest = part.find("max_input_chars_per_word")) {
    model.longest_word = static_cast<std::size_t>(longest->whole());
  }
  model.normalizer = read_bert_normalizer(root["normalizer"]);
  if (root["pre_tokenizer"].type() != "BertPreTokenizer") {
    root["pre_tokenizer"]["type"].refuse("be BertPreTokenizer for WordPiece");
  }
  if (const std::optional<JsonField> decoder = root.find("decoder")) {
    if (decoder->type() != "WordPiece") (*decoder)["type"].refuse("be WordPiece, as the model is");
    model.clean_up = decoder->flag("cleanup", true);
  }
  const bool own = sets_bert_normalizer(companion);
  if (own) model.normalizer = bert_normalizer(companion);
  companion.complete(tokens, model.vocabulary, own ? bert_tokens() : CompanionConfig::Defaults());
  if (sets_bert_ends(companion)) set_bert_ends(tokens);
  return std::make_unique<WordPiece>(std::move(model), std::move(tokens));
}

std::unique_ptr<Tokenizer> read_vocab_txt(const PlainFile& vocab, const CompanionConfig& companion) {
  WordPieceModel model;
  Id id = 0;
  for (const std::string& line : lines_of(vocab.text)) model.vocabulary.add(id++, line);
  const std::string unknown_name = companion.special("unk_token").value_or("[UNK]");
  const std::optional<Id> unknown = model.vocabulary.find(unknown_name);
  if (!unknown) {
    fail_input("vocabulary '{}' lacks the token {}, which WordPiece needs", vocab.path,
               shown_name(unknown_name));
  }
  model.unknown = *unknown;
  model.normalizer = bert_normalizer(companion);
  SpecialTokens tokens;
  companion.complete(tokens, model.vocabulary, bert_tokens());
  set_bert_ends(tokens);
  return std::make_unique<WordPiece>(std::move(model), std::move(tokens));
}

}  // namespace twobw::tokenizer
