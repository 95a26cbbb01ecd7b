#include "app/train/tokenizer_files.h"

#include <algorithm>
#include <vector>

#include "core/base/error.h"

namespace twobw::train {
namespace {

// What belongs to a tokenizer of any kind.
const std::vector<std::string> kBeside = {"tokenizer_config.json", "special_tokens_map.json",
                                          "added_tokens.json", "chat_template.jinja"};
const std::vector<std::string> kVocabularies = {"tokenizer.json", "vocab.json", "merges.txt", "vocab.txt",
                                                "tokenizer.model"};

std::string usual_name(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  if (std::ranges::find(kVocabularies, name) != kVocabularies.end()) return name;
  if (name.ends_with(".model")) return "tokenizer.model";
  return name.ends_with(".txt") ? "vocab.txt" : "tokenizer.json";
}

}  // namespace

std::map<std::string, std::filesystem::path> tokenizer_files(const std::string& tokenizer) {
  namespace fs = std::filesystem;
  std::map<std::string, fs::path> files;
  if (tokenizer == "bytes") return files;
  const fs::path given = tokenizer;
  std::error_code unreadable;
  const bool is_folder = fs::is_directory(given, unreadable);
  if (!is_folder && !fs::is_regular_file(given, unreadable))
    fail_input("data.tokenizer is '{}', which is not there any more; it belongs to the model", tokenizer);
  const fs::path folder = is_folder ? given : given.parent_path();
  std::vector<std::string> names = kBeside;
  if (is_folder) names.insert(names.end(), kVocabularies.begin(), kVocabularies.end());
  if (given.filename() == "vocab.json") names.emplace_back("merges.txt");
  if (given.filename() == "tokenizer.json") names.emplace_back("tokenizer.model");
  for (const std::string& name : names) {
    if (fs::is_regular_file(folder / name, unreadable)) files[name] = folder / name;
  }
  if (!is_folder) files[usual_name(given)] = given;
  return files;
}

}  // namespace twobw::train
