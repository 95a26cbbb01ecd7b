#include "text/tokenizer/readers.h"

#include <algorithm>

#include "core/base/error.h"

namespace twobw::tokenizer {
namespace {

// Ids of a special token in a template.
std::vector<Id> template_ids(const JsonField& specials, const JsonField& name) {
  std::vector<Id> ids;
  for (const JsonField& id : specials[name.text()]["ids"].items()) ids.push_back(id.id());
  return ids;
}

void read_template(const JsonField& part, SpecialTokens& tokens) {
  bool before = true;
  for (const JsonField& piece : part["single"].items()) {
    if (piece.find("Sequence")) {
      if (!before) piece.refuse("be the only sequence of its template");
      before = false;
      continue;
    }
    const std::vector<Id> ids = template_ids(part["special_tokens"], piece["SpecialToken"]["id"]);
    std::vector<Id>& side = before ? tokens.prefix : tokens.suffix;
    side.insert(side.end(), ids.begin(), ids.end());
  }
  if (before) part["single"].refuse("hold the sequence");
}

// ["[CLS]", 101]
Id id_of_pair(const JsonField& pair) {
  const std::vector<JsonField> items = pair.items();
  if (items.size() != 2) pair.refuse("be a token and its id");
  return items[1].id();
}

void read_post_processor(const JsonField& part, SpecialTokens& tokens) {
  const std::string type = part.type();
  if (type == "TemplateProcessing") {
    read_template(part, tokens);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    tokens.prefix = {id_of_pair(part["cls"])};
    tokens.suffix = {id_of_pair(part["sep"])};
  } else if (type == "Sequence") {
    // Only a template adds tokens, and one is allowed.
    for (const JsonField& inner : part["processors"].items()) {
      if (inner.type() == "TemplateProcessing" && tokens.prefix.empty() && tokens.suffix.empty()) {
        read_template(inner, tokens);
      } else if (inner.type() != "ByteLevel") {
        inner["type"].refuse("be ByteLevel or one TemplateProcessing");
      }
    }
  } else if (type != "ByteLevel") {
    part["type"].refuse("be TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel or Sequence");
  }
}

class MergeReader {
 public:
  MergeReader(const Vocabulary& vocabulary, std::size_t merges, const std::string& document)
      : vocabulary_(vocabulary), document_(document), table_(merges) {}

  void add(std::string_view left, std::string_view right) {
    merged_.assign(left).append(right);
    const Id left_id = find(left);
    const Id right_id = find(right);
    table_.add(left_id, right_id, rank_++, find(merged_));
  }

  void add_line(std::string_view line) {
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
      fail_input("{} has the merge '{}'; it must be two tokens with a space between them", document_,
                 shown_name(line.substr(0, kShown)));
    }
    add(line.substr(0, space), line.substr(space + 1));
  }

  MergeTable take() { return std::move(table_); }

 private:
  static constexpr std::size_t kShown = 60;

  Id find(std::string_view token) const {
    if (const std::optional<Id> id = vocabulary_.find(token)) return *id;
    fail_input("{} has a merge with the token '{}' (merge {}), which is not in the vocabulary", document_,
               shown_name(token.substr(0, kShown)), rank_);
  }

  const Vocabulary& vocabulary_;
  const std::string& document_;
  MergeTable table_;
  std::uint32_t rank_ = 0;
  std::string merged_;
};

// Files of old versions omit the type.
std::string model_type(const JsonField& model) {
  if (model.find("type")) return model.type();
  return model.find("merges") ? "BPE" : "WordPiece";
}

}  // namespace

SpecialTokens read_special_tokens(const JsonField& root) {
  SpecialTokens tokens;
  if (const std::optional<JsonField> added = root.find("added_tokens")) {
    for (const JsonField& part : added->items())
      tokens.added.push_back(read_added_token(part, part["id"].id()));
  }
  if (const std::optional<JsonField> after = root.find("post_processor")) read_post_processor(*after, tokens);
  if (const std::optional<JsonField> cut = root.find("truncation")) {
    const std::optional<JsonField> side = cut->find("direction");
    tokens.cuts_front = side && side->text() == "Left";
  }
  return tokens;
}

MergeTable read_merges(const Vocabulary& vocabulary, const std::vector<std::string>& lines,
                       const std::string& document) {
  MergeReader reader(vocabulary, lines.size(), document);
  for (const std::string& line : lines) reader.add_line(line);
  return reader.take();
}

MergeTable read_merges(const Vocabulary& vocabulary, const JsonField& list) {
  MergeReader reader(vocabulary, list.list().size(), list.document());
  for (const nlohmann::json& merge : list.list()) {
    if (merge.is_string()) {
      reader.add_line(merge.get_ref<const std::string&>());
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      reader.add(merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>());
    } else {
      list.refuse("hold merges as \"a b\" or [\"a\", \"b\"]");
    }
  }
  return reader.take();
}

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

void require_empty(const JsonField& part, const std::string& key) {
  const std::optional<JsonField> found = part.find(key);
  if (found && !found->text().empty()) found->refuse("be null or empty: it is not supported");
}

void require_off(const JsonField& part, const std::string& key) {
  if (part.flag(key, false)) part[key].refuse("be false: it is not supported");
}

void check_bpe(const JsonField& model) {
  constexpr std::string_view kKeys[] = {"type",          "dropout",
                                        "unk_token",     "continuing_subword_prefix",
                                        "fuse_unk",      "end_of_word_suffix",
                                        "byte_fallback", "ignore_merges",
                                        "vocab",         "merges"};
  model.allow(kKeys);
  if (model.find("dropout")) model["dropout"].refuse("be null: ids must not be random");
}

Vocabulary read_vocabulary(const JsonField& object) {
  Vocabulary vocabulary;
  for (const auto& [token, id] : object.object().items()) vocabulary.add(object.check_id(id, token), token);
  return vocabulary;
}

std::unique_ptr<Tokenizer> read_tokenizer_json(const JsonField& root, const CompanionConfig& companion) {
  // Truncation and padding concern batches, not the ids of a text.
  constexpr std::string_view kKeys[] = {"version",        "truncation", "padding",
                                        "added_tokens",   "normalizer", "pre_tokenizer",
                                        "post_processor", "decoder",    "model"};
  root.allow(kKeys);
  SpecialTokens tokens = read_special_tokens(root);
  const std::string type = model_type(root["model"]);
  if (type == "BPE" && is_character_bpe(root["model"]))
    return read_character_bpe(root, companion, std::move(tokens));
  if (type == "BPE") return read_byte_level_bpe(root, companion, std::move(tokens));
  if (type == "WordPiece") return read_word_piece(root, companion, std::move(tokens));
  root["model"]["type"].refuse("be BPE or WordPiece");
}

}  // namespace twobw::tokenizer
