#include "app/train/facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "app/train/data_files.h"
#include "core/base/config_schema.h"
#include "engine/checkpoint/formats/manifest.h"
#include "engine/runtime/setup.h"
#include "text/corpus/configured_tokens.h"

namespace twobw::train {

namespace fs = std::filesystem;

namespace {

std::string describe_file(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return error ? "cannot be read" : "no file";
  const std::uintmax_t size = fs::file_size(file, error);
  return error ? "cannot be read" : fmt::format("{} bytes, checksum {}", size, sample_checksum(file, size));
}

// Of a folder, the files right in it.
std::string contents_of(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return describe_file(path);
  std::set<std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    std::error_code unreadable;
    if (entry.is_regular_file(unreadable))
      files.insert(fmt::format("{}: {}\n", entry.path().filename().string(), describe_file(entry.path())));
  }
  std::string all;
  for (const std::string& file : files) all += file;
  return fmt::format("{} files, their names and contents {}", files.size(), checkpoint::checksum(all));
}

void add_data(const char* key, const Corpora& corpora, control::Facts& facts) {
  for (const std::string& file : files_of(corpora))
    facts.emplace_back(fmt::format("the file '{}' of {}", file, key), contents_of(file));
}

}  // namespace

void tokenize_texts(const Config& config) {
  runtime::check_tokenizer(config);
  corpus::with_token_files(config);
}

control::Facts facts_of(const std::string& command, const Config& config) {
  control::Facts facts = {{"the command", command}};
  for (const Key& key : schema()) facts.emplace_back(key.path, key.write(config));
  add_data("data.train", config.data.train, facts);
  add_data("data.validation", config.data.validation, facts);
  if (config.data.tokenizer != "bytes")
    facts.emplace_back("what data.tokenizer names", contents_of(config.data.tokenizer));
  if (config.model.is_imported()) facts.emplace_back("what model.from names", contents_of(config.model.from));
  // A corpus may be named twice.
  std::set<std::string> seen;
  std::erase_if(facts, [&](const auto& fact) { return !seen.insert(fact.first).second; });
  return facts;
}

}  // namespace twobw::train
