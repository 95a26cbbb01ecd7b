#include "train/facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/config_schema.h"
#include "checkpoint/checksum.h"
#include "corpus/indexed_file.h"
#include "corpus/token_cache.h"
#include "data/tokens.h"
#include "runtime/setup.h"

namespace twobw::train {

namespace fs = std::filesystem;

namespace {

// Of a large file blocks all over it, the first and the last among them: to read all of it may take minutes.
std::string checksum_of(const fs::path& file, std::uint64_t size) {
  constexpr std::uint64_t kWhole = 64 << 20, kBlock = 64 << 10, kBlocks = 256;
  const std::uint64_t block = size <= kWhole ? size : kBlock, blocks = size <= kWhole ? 1 : kBlocks;
  std::ifstream in(file, std::ios::binary);
  std::string some(block * blocks, '\0');
  for (std::uint64_t i = 0; i < blocks; ++i) {
    if (i > 0) in.seekg(static_cast<std::streamoff>((size - block) / (blocks - 1) * i));
    if (i + 1 == blocks && i > 0) in.seekg(static_cast<std::streamoff>(size - block));
    in.read(some.data() + i * block, static_cast<std::streamsize>(block));
  }
  return in ? checkpoint::checksum(some) : "cannot be read";
}

std::string describe_file(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return error ? "cannot be read" : "no file";
  const std::uintmax_t size = fs::file_size(file, error);
  return error ? "cannot be read" : fmt::format("{} bytes, checksum {}", size, checksum_of(file, size));
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
  for (const Corpus& corpus : corpora) {
    if (corpus.path == "synthetic") continue;
    std::vector<std::string> files = {corpus.path};
    if (data::names_token_file(corpus.path)) {
      const std::string prefix = corpus::token_file_prefix(corpus.path);
      files = {prefix + ".idx", prefix + ".bin"};
    }
    for (const std::string& file : files)
      facts.emplace_back(fmt::format("the file '{}' of {}", file, key), contents_of(file));
  }
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
