// Input files and their documents, which are read in order and in parts.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace twobw::corpus {

enum class Format { kText, kJsonl, kTsv };

struct Input {
  std::string path;
  Format format = Format::kText;
  std::int64_t bytes = 0;     // size on the disk
  std::int64_t modified = 0;  // nanoseconds since 1970
  friend bool operator==(const Input&, const Input&) = default;
};

// Format by name, without .gz or .zst: .jsonl, .ndjson and .json are jsonl, .tsv is tsv, all others are text.
Format format_of(const std::string& path);

std::string format_name(Format format);

// Lists files in the given order. A folder means all files below it, sorted by path, except hidden ones.
// `format` is "auto", "text", "jsonl" or "tsv". Throws InputError.
std::vector<Input> list_inputs(const std::vector<std::string>& paths, const std::string& format);

struct DocumentOptions {
  std::string field = "text";   // of jsonl
  std::string column = "text";  // of tsv: a name in the first line, or a number from 1 without such a line
  bool blank_lines = false;     // of text: separate documents; else the file is one document
  friend bool operator==(const DocumentOptions&, const DocumentOptions&) = default;
};

// Text of at most kLongestPiece, or a whole line of jsonl (field_text() in records.h).
struct Part {
  std::string_view text;
  bool ends_document = true;
  std::int64_t line = 0;  // of jsonl and tsv, from 1
};

class DocumentReader {
 public:
  virtual ~DocumentReader() = default;

  // Returns nothing at the end. The text is valid until the next call. Throws InputError.
  virtual std::optional<Part> next() = 0;

  // Bytes of the file read so far.
  virtual std::int64_t position() const = 0;
};

// Throws InputError.
std::unique_ptr<DocumentReader> read_documents(const Input& input, const DocumentOptions& options);

// Long documents are encoded in pieces, so that memory does not grow with them.
inline constexpr std::size_t kLongestPiece = std::size_t{1} << 20;

// Length of the first piece of a text: all of it, or up to a position where the words before and after do not
// affect each other. Preferred is a line end before an ASCII letter or digit, then a space, then any
// character. Reads at most kLongestPiece + 1 bytes.
std::size_t piece_length(std::string_view text);

}  // namespace twobw::corpus
