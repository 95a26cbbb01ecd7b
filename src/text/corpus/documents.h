// The documents of an input file, in order, a part of them at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "text/corpus/inputs.h"

namespace twobw::corpus {

struct DocumentOptions {
  std::string field = "text";   // of jsonl
  std::string column = "text";  // of tsv: a name in the first line, or a number from 1 on and no such line
  bool blank_lines = false;     // of text: they separate documents; else a file is one
  friend bool operator==(const DocumentOptions&, const DocumentOptions&) = default;
};

// Of a text no longer than kLongestPiece; of jsonl a whole line, for document_text().
struct Part {
  std::string_view text;
  bool ends_document = true;
  std::int64_t line = 0;  // of jsonl and tsv, from 1 on
};

class DocumentReader {
 public:
  virtual ~DocumentReader() = default;

  // Nothing: the end. Its text is valid until the next call. Throws InputError.
  virtual std::optional<Part> next() = 0;

  // How much of the file has been read.
  virtual std::int64_t position() const = 0;
};

// Throws InputError.
std::unique_ptr<DocumentReader> read_documents(const Input& input, const DocumentOptions& options);

// The document in a line of jsonl. `place` names the line in the InputError: "x.jsonl:7".
std::string field_text(std::string_view line, const std::string& field, const std::string& place);

// Lines of jsonl and tsv are held in memory whole.
inline constexpr std::size_t kLongestLine = std::size_t{16} << 20;

}  // namespace twobw::corpus
