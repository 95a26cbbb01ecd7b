// Which files to read, and how.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace twobw::corpus {

enum class Format { kText, kJsonl, kTsv };

struct Input {
  std::string path;
  Format format = Format::kText;
  std::int64_t bytes = 0;     // as it lies on the disk
  std::int64_t modified = 0;  // nanoseconds since 1970
  friend bool operator==(const Input&, const Input&) = default;
};

// Of a name without its .gz or .zst: .jsonl, .ndjson and .json are jsonl, .tsv is tsv, all others are text.
Format format_of(const std::string& path);

std::string format_name(Format format);

// The files in the order given; of a folder all files below it, sorted by path, without those whose name or
// folder begins with a dot. `format` is "auto", "text", "jsonl" or "tsv". Throws InputError.
std::vector<Input> list_inputs(const std::vector<std::string>& paths, const std::string& format);

}  // namespace twobw::corpus
