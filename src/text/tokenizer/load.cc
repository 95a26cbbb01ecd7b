#include "text/tokenizer/load.h"

#include <filesystem>

#include "core/base/error.h"
#include "core/base/text_file.h"
#include "text/tokenizer/bytes.h"
#include "text/tokenizer/plain_files.h"
#include "text/tokenizer/sentencepiece.h"
#include "text/tokenizer/tokenizer_json.h"

namespace twobw::tokenizer {
namespace {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
  std::error_code error;  // the name may be too long
  return fs::is_regular_file(path, error);
}

// The first of those that a folder may hold; empty: none.
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

std::optional<JsonDocument> open_beside(const fs::path& path, const char* name) {
  const fs::path beside = path.parent_path() / name;
  return is_file(beside) ? std::optional(open_json(beside)) : std::nullopt;
}

std::optional<JsonPart> root_of(const std::optional<JsonDocument>& document) {
  return document ? std::optional(document->root()) : std::nullopt;
}

// Whether it is a sentencepiece model written out, as of Llama 2, which tokenizer.model holds too.
bool is_sentencepiece(const JsonPart& json) {
  const std::optional<JsonPart> model = json.find("model");
  const std::optional<JsonPart> falls_back = model ? model->find("byte_fallback") : std::nullopt;
  return falls_back && falls_back->flag();
}

std::unique_ptr<Tokenizer> load_json(const fs::path& path, const Beside& beside) {
  const JsonDocument json = open_json(path);
  const fs::path model = path.parent_path() / "tokenizer.model";
  if (is_sentencepiece(json.root()) && is_file(model))
    return load_sentencepiece(model.string(), beside, json.root());
  return read_tokenizer_json(json.root(), beside);
}

// The files that may lie beside that of a tokenizer belong to it.
std::unique_ptr<Tokenizer> load_file(const fs::path& path) {
  const auto config = open_beside(path, "tokenizer_config.json");
  const auto special = open_beside(path, "special_tokens_map.json");
  const auto added = open_beside(path, "added_tokens.json");
  const Beside beside(root_of(config), root_of(special), root_of(added));
  const std::string name = path.filename().string();
  if (name == "vocab.json") {
    return read_vocab_and_merges(open_plain("vocabulary", path),
                                 open_plain("merges", path.parent_path() / "merges.txt"), beside);
  }
  if (name.ends_with(".json")) return load_json(path, beside);
  if (name.ends_with(".txt")) return read_vocab_txt(open_plain("vocabulary", path), beside);
  if (name.ends_with(".model")) return load_sentencepiece(path.string(), beside);
  fail_input("tokenizer '{}' is no file of a known kind: it must end in .json, .txt or .model",
             path.string());
}

}  // namespace

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
