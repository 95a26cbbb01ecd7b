#include "text/tokenizer/tokenizer.h"

#include <filesystem>

#include "core/base/error.h"
#include "core/base/text_file.h"
#include "text/tokenizer/readers.h"

namespace twobw::tokenizer {
namespace {

namespace fs = std::filesystem;

// Bytes of the text as ids.
class Bytes : public Tokenizer {
 public:
  void encode(std::string_view text, std::vector<Id>& ids) const override {
    ids.reserve(ids.size() + text.size());
    for (const char byte : text) ids.push_back(static_cast<std::uint8_t>(byte));
  }
  void append_text(Id id, bool, std::string& text) const override {
    if (id >= 0 && id < vocab_size()) text.push_back(static_cast<char>(id));
  }
  std::string token(Id id) const override {
    std::string byte;
    append_text(id, true, byte);
    return byte;
  }
  std::optional<Id> id(std::string_view token) const override {
    if (token.size() != 1) return std::nullopt;
    return static_cast<std::uint8_t>(token[0]);
  }
  bool is_special(Id) const override { return false; }
  Id vocab_size() const override { return 256; }
  std::string describe() const override { return "bytes"; }
};

// First tokenizer file of a folder; empty: none.
fs::path file_in(const fs::path& folder) {
  for (const char* const name : {"tokenizer.json", "vocab.json", "vocab.txt", "tokenizer.model"}) {
    if (is_file(folder / name)) return folder / name;
  }
  return {};
}

PlainFile open_plain(std::string_view what, const fs::path& path) {
  return {path.string(), read_model_text(what, path.string(), kLargestTable)};
}

JsonDocument open_json(const fs::path& path) {
  return {read_model_text("tokenizer", path.string(), kLargestTable),
          fmt::format("tokenizer '{}'", path.string())};
}

std::optional<JsonDocument> open_companion(const fs::path& path, const char* name) {
  const fs::path companion = path.parent_path() / name;
  return is_file(companion) ? std::optional(open_json(companion)) : std::nullopt;
}

std::optional<JsonField> root_of(const std::optional<JsonDocument>& document) {
  return document ? std::optional(document->root()) : std::nullopt;
}

std::unique_ptr<Tokenizer> load_json(const fs::path& path, const CompanionConfig& companion) {
  const JsonDocument json = open_json(path);
  const std::optional<JsonField> model = json.root().find("model");
  const fs::path library_model = path.parent_path() / "tokenizer.model";
  if (model && is_character_bpe(*model) && is_file(library_model))
    return read_sentencepiece(library_model.string(), companion, json.root());
  return read_tokenizer_json(json.root(), companion);
}

std::unique_ptr<Tokenizer> load_file(const fs::path& path) {
  const auto config = open_companion(path, "tokenizer_config.json");
  const auto special = open_companion(path, "special_tokens_map.json");
  const auto added = open_companion(path, "added_tokens.json");
  const CompanionConfig companion(root_of(config), root_of(special), root_of(added));
  const std::string name = path.filename().string();
  if (name == "vocab.json") {
    return read_vocab_and_merges(open_plain("vocabulary", path),
                                 open_plain("merges", path.parent_path() / "merges.txt"), companion);
  }
  if (name.ends_with(".json")) return load_json(path, companion);
  if (name.ends_with(".txt")) return read_vocab_txt(open_plain("vocabulary", path), companion);
  if (name.ends_with(".model")) return read_sentencepiece(path.string(), companion);
  fail_input("tokenizer '{}' is of an unknown kind: it must end in .json, .txt or .model", path.string());
}

}  // namespace

void Tokenizer::encode_sequence(std::string_view text, std::vector<Id>& ids) const {
  ids.insert(ids.end(), prefix_.begin(), prefix_.end());
  encode(text, ids);
  ids.insert(ids.end(), suffix_.begin(), suffix_.end());
}

std::string Tokenizer::decode(std::span<const Id> ids, bool skip_special) const {
  std::string text;
  bool first = true;
  for (const Id id : ids) {
    if (skip_special && is_special(id)) continue;
    append_text(id, first, text);
    first = first && begins_after(id, !text.empty());
  }
  return text;
}

bool has_tokenizer(const std::string& folder) {
  return !file_in(folder).empty();
}

std::string present_tokenizer(const std::string& path, const std::string& model) {
  std::error_code unreadable;
  const bool gone = path != "bytes" && !fs::exists(path, unreadable);
  return gone && has_tokenizer(model) ? model : path;
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path) {
  if (path == "bytes") return std::make_unique<Bytes>();
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    if (is_file(path)) return load_file(path);
    fail_input("there is no tokenizer '{}': it must be 'bytes', a folder or a file", path);
  }
  if (const fs::path file = file_in(path); !file.empty()) return load_file(file);
  fail_input(
      "folder '{}' holds no tokenizer: tokenizer.json, vocab.json with merges.txt, vocab.txt or "
      "tokenizer.model",
      path);
}

}  // namespace twobw::tokenizer
