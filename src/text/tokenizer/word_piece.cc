#include "text/tokenizer/word_piece.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/error.h"
#include "core/base/json.h"
#include "text/tokenizer/readers.h"
#include "text/tokenizer/unicode.h"
#include "text/tokenizer/utf8.h"

namespace twobw::tokenizer {
namespace {

std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char b) { return !continues_character(b); }));
}

// Removes spaces before punctuation and contractions.
void clean_up_spaces(std::string& text) {
  constexpr std::pair<const char*, const char*> kChanges[] = {
      {" .", "."},     {" ?", "?"},   {" !", "!"},   {" ,", ","},     {" ' ", "'"},
      {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kChanges) text = replaced(text, from, to);
}

// Normalizes character by character. Non-ASCII characters are held back, because their marks are reordered
// together before they are stripped or kept.
class BertWriter {
 public:
  explicit BertWriter(const BertNormalizer& options, std::size_t size)
      : options_(options), classes_(character_classes()) {
    out_.reserve(size);
  }

  void add(char32_t code) {
    const std::uint8_t classes = classes_[code];
    if (options_.clean && classes & kControl) return;
    if (options_.clean && classes & kSpace) code = ' ';
    if (options_.space_ideographs && classes & kIdeograph) {
      put(' ');
      put(code);
      put(' ');
    } else {
      put(code);
    }
  }

  std::string finish() {
    flush();
    return std::move(out_);
  }

 private:
  void put(char32_t code) {
    if (code < 0x80) {
      if (!waiting_.empty()) flush();
      const bool capital = options_.lower_case && code >= 'A' && code <= 'Z';
      out_.push_back(static_cast<char>(capital ? code + 0x20 : code));
    } else if (options_.strip_accents) {
      decompose(code, waiting_);
    } else {
      waiting_.push_back(code);
    }
  }

  void flush() {
    if (options_.strip_accents) {
      order_marks(waiting_);
      std::erase_if(waiting_, [&](char32_t code) { return classes_[code] & kMark; });
    }
    if (options_.lower_case) {
      lowered_.clear();
      for (const char32_t code : waiting_) append_lower_case(code, lowered_);
      waiting_.swap(lowered_);
    }
    for (const char32_t code : waiting_) append_character(code, out_);
    waiting_.clear();
  }

  const BertNormalizer& options_;
  const CharacterClasses& classes_;
  std::u32string waiting_, lowered_;
  std::string out_;
};

}  // namespace

std::string BertNormalizer::operator()(std::string_view text) const {
  BertWriter writer(*this, text.size());
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    const Character next = read_character(at, end);
    writer.add(next.code);
    at += next.length;
  }
  return writer.finish();
}

void split_bert_words(std::string_view text, const std::function<void(std::string_view)>& emit) {
  const CharacterClasses& classes = character_classes();
  const char* const end = text.data() + text.size();
  const char* word = text.data();
  const auto emit_until = [&](const char* stop) {
    if (stop > word) emit({word, static_cast<std::size_t>(stop - word)});
  };
  for (const char* at = text.data(); at < end;) {
    const Character next = read_character(at, end);
    const char* const after = at + next.length;
    const std::uint8_t kind = classes[next.code];
    if (kind & (kSpace | kPunctuation)) {
      emit_until(at);
      word = at;
      if (kind & kPunctuation) emit_until(after);
      word = after;
    }
    at = after;
  }
  emit_until(end);
}

WordPiece::WordPiece(WordPieceModel model, const SpecialTokens& tokens)
    : VocabularyTokenizer(std::move(model.vocabulary)), model_(std::move(model)) {
  character_classes();  // throws now, not at the first text, if the build lacks them
  for (Id id = 0; id < vocabulary_.size(); ++id) {
    const std::string& token = vocabulary_.token(id);
    longest_ = std::max(longest_, token.size());
    if (!model_.continuing.empty() && token.starts_with(model_.continuing)) {
      continuing_.try_emplace(token.substr(model_.continuing.size()), id);
    }
  }
  add(tokens, model_.normalizer);
}

void WordPiece::encode(std::string_view text, std::vector<Id>& ids) const {
  added_.split(
      text,
      [&](std::string_view part) {
        split_bert_words(part, [&](std::string_view word) { encode_word(word, ids); });
      },
      [&](Id id) { ids.push_back(id); });
}

void WordPiece::encode_word(std::string_view word, std::vector<Id>& ids) const {
  const std::size_t before = ids.size();
  const auto give_up = [&] {
    ids.resize(before);
    ids.push_back(model_.unknown);
  };
  if (count_characters(word) > model_.longest_word) return give_up();
  const bool marked = !model_.continuing.empty();
  for (std::size_t at = 0; at < word.size();) {
    const std::string_view rest = word.substr(at, longest_);
    std::size_t length = rest.size();
    std::optional<Id> found;
    while (length > 0) {
      const bool whole = at + length == word.size() || !continues_character(word[at + length]);
      if (whole && at > 0 && marked) {
        const auto place = continuing_.find(rest.substr(0, length));
        if (place != continuing_.end()) found = place->second;
      } else if (whole) {
        found = vocabulary_.find(rest.substr(0, length));
      }
      if (found) break;
      --length;
    }
    if (!found) return give_up();
    ids.push_back(*found);
    at += length;
  }
}

void WordPiece::append_text(Id id, bool first, std::string& text) const {
  if (!vocabulary_.has(id)) return;
  std::string token = vocabulary_.token(id);
  if (!first) {
    const bool continues = !model_.continuing.empty() && token.starts_with(model_.continuing);
    token = continues ? token.substr(model_.continuing.size()) : " " + token;
  }
  if (model_.clean_up) clean_up_spaces(token);
  text += token;
}

std::string WordPiece::describe() const {
  return model_.normalizer.lower_case ? "WordPiece, lower case" : "WordPiece, cased";
}

// Readers: tokenizer.json and vocab.txt.

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
