#include "text/tokenizer/tokenizer_json.h"

#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/character_bpe_json.h"
#include "text/tokenizer/class_settings.h"
#include "text/tokenizer/json_frame.h"
#include "text/tokenizer/merges.h"
#include "text/tokenizer/splitter.h"
#include "text/tokenizer/word_piece.h"

namespace twobw::tokenizer {
namespace {

bool flag_or(const JsonPart& part, const std::string& key, bool otherwise) {
  const std::optional<JsonPart> found = part.find(key);
  return found ? found->flag() : otherwise;
}

// A setting that changes ids and that only its neutral value is supported of.
void require_empty(const JsonPart& part, const std::string& key) {
  const std::optional<JsonPart> found = part.find(key);
  if (found && !found->text().empty()) found->refuse("be null or empty: it is not supported");
}

void require_off(const JsonPart& part, const std::string& key) {
  if (flag_or(part, key, false)) part[key].refuse("be false: it is not supported");
}

// Byte-level BPE

void read_byte_level(const JsonPart& part, ByteLevelModel& model) {
  model.pattern = flag_or(part, "use_regex", true) ? Pattern::kGpt2 : Pattern::kNone;
  model.prefix_space = flag_or(part, "add_prefix_space", true);
}

// A split by a pattern, then ByteLevel without one of its own.
void read_split(const JsonPart& sequence, ByteLevelModel& model) {
  const std::vector<JsonPart> steps = sequence["pretokenizers"].items();
  if (steps.size() == 1 && steps[0].type() == "ByteLevel") return read_byte_level(steps[0], model);
  if (steps.size() != 2 || steps[0].type() != "Split" || steps[1].type() != "ByteLevel") {
    sequence["pretokenizers"].refuse("be a Split and then ByteLevel");
  }
  const JsonPart& split = steps[0];
  if (split["behavior"].text() != "Isolated") split["behavior"].refuse("be \"Isolated\"");
  require_off(split, "invert");
  require_off(steps[1], "add_prefix_space");
  if (flag_or(steps[1], "use_regex", true)) steps[1].refuse("have use_regex = false after a Split");
  model.pattern = find_pattern(split["pattern"]["Regex"].text(), split.document());
}

void read_normal_form(const JsonPart& part, ByteLevelModel& model) {
  if (part.type() == "Sequence") {
    for (const JsonPart& inner : part["normalizers"].items()) {
      if (inner.type() != "NFC") inner["type"].refuse("be \"NFC\" for byte-level BPE");
      model.compose = true;
    }
  } else if (part.type() == "NFC") {
    model.compose = true;
  } else {
    part["type"].refuse("be \"NFC\" for byte-level BPE");
  }
}

ByteLevelModel read_bpe(const JsonPart& part) {
  check_bpe(part);
  require_empty(part, "continuing_subword_prefix");
  require_empty(part, "end_of_word_suffix");
  ByteLevelModel model;
  model.vocabulary = read_vocabulary(part["vocab"]);
  model.merges = read_merges(model.vocabulary, part["merges"]);
  model.ignore_merges = flag_or(part, "ignore_merges", false);
  model.fuse_unknown = flag_or(part, "fuse_unk", false);
  if (const std::optional<JsonPart> unknown = part.find("unk_token")) {
    model.unknown = model.vocabulary.find(unknown->text());
    if (!model.unknown && !unknown->text().empty()) unknown->refuse("be in the vocabulary");
  }
  return model;
}

std::unique_ptr<Tokenizer> read_byte_level_bpe(const JsonPart& root, const Beside& beside, Frame frame) {
  ByteLevelModel model = read_bpe(root["model"]);
  if (const std::optional<JsonPart> normalizer = root.find("normalizer"))
    read_normal_form(*normalizer, model);
  const JsonPart words = root["pre_tokenizer"];
  if (words.type() == "ByteLevel") {
    read_byte_level(words, model);
  } else if (words.type() == "Sequence") {
    read_split(words, model);
  } else {
    words["type"].refuse("be ByteLevel, or a Sequence of Split and ByteLevel, for BPE");
  }
  if (const std::optional<JsonPart> decoder = root.find("decoder");
      decoder && decoder->type() != "ByteLevel") {
    (*decoder)["type"].refuse("be ByteLevel for BPE");
  }
  if (!beside.keeps_json()) {
    check_class(beside, model);
    set_prefix_space(beside, model);
  }
  complete_frame(beside, model.vocabulary, frame);
  return std::make_unique<ByteLevelBpe>(std::move(model), std::move(frame));
}

// WordPiece

BertNormalizer read_bert_normalizer(const JsonPart& part) {
  if (part.type() != "BertNormalizer") part["type"].refuse("be BertNormalizer for WordPiece");
  const bool lower_case = flag_or(part, "lowercase", true);
  return {.clean = flag_or(part, "clean_text", true),
          .space_ideographs = flag_or(part, "handle_chinese_chars", true),
          .strip_accents = flag_or(part, "strip_accents", lower_case),
          .lower_case = lower_case};
}

std::unique_ptr<Tokenizer> read_word_piece(const JsonPart& root, const Beside& beside, Frame frame) {
  constexpr std::string_view kKeys[] = {"type", "unk_token", "continuing_subword_prefix",
                                        "max_input_chars_per_word", "vocab"};
  const JsonPart part = root["model"];
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
  if (const std::optional<JsonPart> decoder = root.find("decoder")) {
    if (decoder->type() != "WordPiece") (*decoder)["type"].refuse("be WordPiece, as the model is");
    model.clean_up = flag_or(*decoder, "cleanup", true);
  }
  const bool own = sets_bert_text(beside);
  if (own) model.normalizer = bert_normalizer(beside);
  complete_frame(beside, model.vocabulary, frame, own ? bert_tokens() : Beside::Defaults());
  if (sets_bert_frame(beside)) frame_bert(frame);
  return std::make_unique<WordPiece>(std::move(model), std::move(frame));
}

// Files of old versions do not name the type of their model.
std::string model_type(const JsonPart& model) {
  if (model.find("type")) return model.type();
  return model.find("merges") ? "BPE" : "WordPiece";
}

}  // namespace

void check_bpe(const JsonPart& model) {
  constexpr std::string_view kKeys[] = {"type",          "dropout",
                                        "unk_token",     "continuing_subword_prefix",
                                        "fuse_unk",      "end_of_word_suffix",
                                        "byte_fallback", "ignore_merges",
                                        "vocab",         "merges"};
  model.allow(kKeys);
  if (model.find("dropout")) model["dropout"].refuse("be null: ids must not be random");
}

Vocabulary read_vocabulary(const JsonPart& object) {
  Vocabulary vocabulary;
  for (const auto& [token, id] : object.object().items()) vocabulary.add(object.check_id(id, token), token);
  return vocabulary;
}

std::unique_ptr<Tokenizer> read_tokenizer_json(const JsonPart& root, const Beside& beside) {
  // Truncation and padding are about batches: what a text's ids are does not depend on them.
  constexpr std::string_view kKeys[] = {"version",        "truncation", "padding",
                                        "added_tokens",   "normalizer", "pre_tokenizer",
                                        "post_processor", "decoder",    "model"};
  root.allow(kKeys);
  Frame frame = read_frame(root);
  const std::string type = model_type(root["model"]);
  if (type == "BPE" && is_character_bpe(root["model"]))
    return read_character_bpe(root, beside, std::move(frame));
  if (type == "BPE") return read_byte_level_bpe(root, beside, std::move(frame));
  if (type == "WordPiece") return read_word_piece(root, beside, std::move(frame));
  root["model"]["type"].refuse("be BPE or WordPiece");
}

}  // namespace twobw::tokenizer
