// Folders and token files for the tests.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/text_file.h"
#include "tests/support/refusal.h"
#include "text/corpus/indexed_file.h"
#include "text/corpus/summary.h"

namespace twobw::corpus::testing {

using Ids = std::vector<std::int64_t>;
using Strings = std::vector<std::string>;

inline ::testing::AssertionResult has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "'" << part << "' is not in '" << text << "'";
}

// Temporary folder.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "twobw_corpus_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string file(const std::string& name) const { return (path_ / name).string(); }
  // Writes a file, creating its folders, and returns its path.
  std::string write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    // Some file systems wait for the disk when a file is overwritten.
    std::filesystem::remove(path_ / name);
    write_text(file(name), text);
    return file(name);
  }
  std::string read(const std::string& name) const { return read_text("file", file(name)); }
  bool has(const std::string& name) const { return std::filesystem::exists(path_ / name); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

template <typename Number>
void put(std::string& bytes, Number number) {
  char raw[sizeof number];
  std::memcpy(raw, &number, sizeof number);
  bytes.append(raw, sizeof number);
}

// Bytes of an .idx, valid or not.
struct Index {
  std::string magic = std::string("MMIDIDX\0\0", 9);
  std::uint64_t version = 1;
  std::uint8_t type = 8;
  std::vector<std::int32_t> lengths;
  std::vector<std::int64_t> pointers;
  std::vector<std::int64_t> documents = {0};

  std::string bytes() const {
    std::string out = magic;
    put(out, version);
    put(out, type);
    put(out, std::uint64_t{lengths.size()});
    put(out, std::uint64_t{documents.size()});
    for (const auto length : lengths) put(out, length);
    for (const auto pointer : pointers) put(out, pointer);
    for (const auto document : documents) put(out, document);
    return out;
  }
};

// Token files of documents of these lengths, with consecutive tokens from 0: a token is its position in the
// stream.
inline void write_counting(const Folder& folder, const std::string& name, const std::vector<int>& lengths) {
  Index index;
  std::string bin;
  std::uint16_t token = 0;
  for (const int length : lengths) {
    index.lengths.push_back(length);
    index.pointers.push_back(static_cast<std::int64_t>(bin.size()));
    index.documents.push_back(static_cast<std::int64_t>(index.lengths.size()));
    for (int i = 0; i < length; ++i) put(bin, token++);
  }
  folder.write(name + ".bin", bin);
  folder.write(name + ".idx", index.bytes());
}

inline std::vector<std::int64_t> sequence(const IndexedFile& file, std::int64_t i) {
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(file.length(i)));
  file.read(i, 0, tokens);
  return tokens;
}

// Documents of a file whose tokens are bytes.
inline std::vector<std::string> texts(const IndexedFile& file) {
  std::vector<std::string> texts;
  for (std::int64_t i = 0; i < file.documents(); ++i) {
    const auto tokens = document_tokens(file, i, document_length(file, i));
    texts.emplace_back(tokens.begin(), tokens.end());
  }
  return texts;
}

}  // namespace twobw::corpus::testing
