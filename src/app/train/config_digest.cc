#include "app/train/config_digest.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>

#include "app/train/model_files.h"
#include "core/base/config_schema.h"
#include "engine/data/tokens.h"
#include "engine/runtime/setup.h"
#include "text/corpus/configured_tokens.h"
#include "text/corpus/indexed_file.h"

namespace twobw::train {

namespace fs = std::filesystem;

namespace {

// Files of corpora: synthetic data have none, token files two.
std::vector<std::string> files_of(const Corpora& corpora) {
  std::vector<std::string> files;
  for (const Corpus& corpus : corpora) {
    if (corpus.path == "synthetic") continue;
    if (data::names_token_file(corpus.path)) {
      const std::string prefix = corpus::token_file_prefix(corpus.path);
      files.insert(files.end(), {prefix + ".idx", prefix + ".bin"});
    } else {
      files.push_back(corpus.path);
    }
  }
  return files;
}

// Checksum of a file; of a large one, which takes minutes to read, of evenly spaced blocks with the first and
// last.
std::string sample_checksum(const fs::path& file, std::uint64_t size) {
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
  return error ? "cannot be read" : fmt::format("{} bytes, checksum {}", size, sample_checksum(file, size));
}

// Describes a file, or the files right in a folder.
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

using checkpoint::DataFile;

std::optional<DataFile> present_state(const std::string& key, const std::string& path) {
  struct stat state {};
  if (stat(path.c_str(), &state) != 0 || !S_ISREG(state.st_mode)) return std::nullopt;
  const auto bytes = static_cast<std::uint64_t>(state.st_size);
  return DataFile{.key = key,
                  .path = path,
                  .bytes = bytes,
                  .modified = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(state.st_mtime)),
                  .checksum = sample_checksum(path, bytes)};
}

std::string describe(const DataFile& file) {
  return fmt::format("{} bytes, modified {}, checksum {}", file.bytes, file.modified, file.checksum);
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
    facts.emplace_back("the files of data.tokenizer", contents_of(config.data.tokenizer));
  if (config.model.is_imported())
    facts.emplace_back("the files of model.from", contents_of(config.model.from));
  // A corpus may be named twice.
  std::set<std::string> seen;
  std::erase_if(facts, [&](const auto& fact) { return !seen.insert(fact.first).second; });
  return facts;
}

std::vector<DataFile> record_data(const Config& config) {
  std::vector<DataFile> record;
  const auto add = [&](const char* key, const std::string& path) {
    if (std::ranges::find(record, path, &DataFile::path) != record.end()) return;
    if (std::optional<DataFile> file = present_state(key, path)) record.push_back(std::move(*file));
  };
  for (const std::string& path : files_of(config.data.train)) add("data.train", path);
  for (const std::string& path : files_of(config.data.validation)) add("data.validation", path);
  std::error_code unreadable;
  if (config.data.tokenizer != "bytes" && std::filesystem::exists(config.data.tokenizer, unreadable))
    for (const auto& [name, path] : tokenizer_files(config.data.tokenizer))
      add("data.tokenizer", path.string());
  return record;
}

std::vector<std::string> find_changes(const std::vector<DataFile>& recorded) {
  std::vector<std::string> changes;
  for (const DataFile& then : recorded) {
    const std::optional<DataFile> now = present_state(then.key, then.path);
    if (!now || (now->bytes == then.bytes && now->checksum == then.checksum)) continue;
    changes.push_back(fmt::format("the file '{}' of {} has changed: it had {}, and has {}", then.path,
                                  then.key, describe(then), describe(*now)));
  }
  return changes;
}

}  // namespace twobw::train
