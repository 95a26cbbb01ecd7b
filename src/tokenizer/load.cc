#include "tokenizer/load.h"

#include <filesystem>

#include "base/error.h"
#include "base/text_file.h"
#include "tokenizer/bytes.h"
#include "tokenizer/plain_files.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/tokenizer_json.h"

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
  return {path.string(), read_text(what, path.string())};
}

JsonDocument open_json(const fs::path& path) {
  return {read_text("tokenizer", path.string()), fmt::format("tokenizer '{}'", path.string())};
}

// A file may lie beside tokenizer_config.json, which then belongs to it.
std::unique_ptr<Tokenizer> load_file(const fs::path& path) {
  std::optional<JsonDocument> config_file;
  if (const fs::path beside = path.parent_path() / "tokenizer_config.json"; is_file(beside)) {
    config_file.emplace(open_json(beside));
  }
  const std::optional<JsonPart> config =
      config_file ? std::optional(config_file->root()) : std::optional<JsonPart>();
  const std::string name = path.filename().string();
  if (name == "vocab.json") {
    return read_vocab_and_merges(open_plain("vocabulary", path),
                                 open_plain("merges", path.parent_path() / "merges.txt"), config);
  }
  if (name.ends_with(".json")) return read_tokenizer_json(open_json(path).root(), config);
  if (name.ends_with(".txt")) return read_vocab_txt(open_plain("vocabulary", path), config);
  if (name.ends_with(".model")) return load_sentencepiece(path.string());
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
