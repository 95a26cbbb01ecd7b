#include "tokenizer/plain_files.h"

#include <initializer_list>

#include "base/error.h"
#include "base/untrusted_json.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/json_frame.h"
#include "tokenizer/merges.h"
#include "tokenizer/tokenizer_json.h"
#include "tokenizer/word_piece.h"

namespace twobw::tokenizer {
namespace {

// Without the ends of the lines. A last line without one counts.
std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t stop = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, stop);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line);
    text.remove_prefix(std::min(stop + 1, text.size()));
  }
  return lines;
}

// "added_tokens_decoder": {"151643": {"content": ...}}
std::vector<AddedToken> read_added_decoder(const JsonPart& config) {
  std::vector<AddedToken> tokens;
  const std::optional<JsonPart> decoder = config.find("added_tokens_decoder");
  if (!decoder) return tokens;
  for (const auto& [key, part] : decoder->entries()) {
    const bool digits =
        !key.empty() && key.size() < 10 && key.find_first_not_of("0123456789") == std::string::npos;
    if (!digits) part.refuse("have an id as its key");
    tokens.push_back(read_added_token(part, std::stoi(key)));
  }
  return tokens;
}

FindToken finder(const Vocabulary& vocabulary, const std::vector<AddedToken>& added) {
  return [&](std::string_view name) -> std::optional<Id> {
    for (const AddedToken& token : added) {
      if (token.content == name) return token.id;
    }
    return vocabulary.find(name);
  };
}

// Tokens of the vocabulary that are special by their name alone.
void add_known(const Vocabulary& vocabulary, std::initializer_list<const char*> names,
               std::vector<AddedToken>& added) {
  for (const char* const name : names) {
    if (const std::optional<Id> id = vocabulary.find(name)) {
      added.push_back({.id = *id, .content = name, .special = true});
    }
  }
}

std::string class_of(const std::optional<JsonPart>& config) {
  if (!config || !config->find("tokenizer_class")) return "";
  std::string name = (*config)["tokenizer_class"].text();
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  return name;
}

// Ids of added tokens stand outside the vocabulary's own file.
void check_added(const std::vector<AddedToken>& added, const Vocabulary& vocabulary,
                 const std::optional<JsonPart>& config) {
  constexpr Id kRoom = 65536;
  for (const AddedToken& token : added) {
    if (token.id < vocabulary.size() + kRoom) continue;
    fail_input("{} gives an added token the id {}; it must be below {}", config->document(), token.id,
               vocabulary.size() + kRoom);
  }
}

}  // namespace

std::unique_ptr<Tokenizer> read_vocab_and_merges(const PlainFile& vocab, const PlainFile& merges,
                                                 const std::optional<JsonPart>& config) {
  ByteLevelModel model;
  const std::string name = class_of(config);
  if (name == "Qwen2Tokenizer") {
    model.pattern = Pattern::kQwen2;
    model.compose = true;
  } else if (!name.empty() && name != "GPT2Tokenizer") {
    fail_input(
        "{} names the class {}; with vocab.json and merges.txt GPT2Tokenizer and Qwen2Tokenizer are "
        "supported, "
        "others by their tokenizer.json",
        config->document(), shown_name(name));
  }
  const JsonDocument vocabulary(vocab.text, fmt::format("vocabulary '{}'", vocab.path));
  model.vocabulary = read_vocabulary(vocabulary.root());
  std::vector<std::string> lines = lines_of(merges.text);
  std::erase_if(lines, [](const std::string& line) { return line.empty() || line.starts_with("#version"); });
  model.merges = read_merges(model.vocabulary, lines, fmt::format("merges '{}'", merges.path));
  Frame frame;
  if (config) frame.added = read_added_decoder(*config);
  if (frame.added.empty()) add_known(model.vocabulary, {"<|endoftext|>"}, frame.added);
  check_added(frame.added, model.vocabulary, config);
  frame.special = find_special(finder(model.vocabulary, frame.added), config);
  return std::make_unique<ByteLevelBpe>(std::move(model), std::move(frame));
}

std::unique_ptr<Tokenizer> read_vocab_txt(const PlainFile& vocab, const std::optional<JsonPart>& config) {
  WordPieceModel model;
  Id id = 0;
  for (const std::string& line : lines_of(vocab.text)) model.vocabulary.add(id++, line);
  const std::optional<Id> unknown = model.vocabulary.find("[UNK]");
  if (!unknown) fail_input("vocabulary '{}' lacks the token [UNK], which WordPiece needs", vocab.path);
  model.unknown = *unknown;
  if (config) {
    if (const auto lower = config->find("do_lower_case")) model.normalizer.lower_case = lower->flag();
    if (const auto ideographs = config->find("tokenize_chinese_chars")) {
      model.normalizer.space_ideographs = ideographs->flag();
    }
    const auto accents = config->find("strip_accents");
    model.normalizer.strip_accents = accents ? accents->flag() : model.normalizer.lower_case;
  }
  Frame frame;
  if (config) frame.added = read_added_decoder(*config);
  if (frame.added.empty()) {
    add_known(model.vocabulary, {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}, frame.added);
  }
  check_added(frame.added, model.vocabulary, config);
  frame.special = find_special(finder(model.vocabulary, frame.added), config);
  if (frame.special.cls) frame.prefix = {*frame.special.cls};
  if (frame.special.sep) frame.suffix = {*frame.special.sep};
  return std::make_unique<WordPiece>(std::move(model), std::move(frame));
}

}  // namespace twobw::tokenizer
