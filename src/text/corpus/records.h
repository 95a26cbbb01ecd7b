// Lines of tsv and jsonl files, and the fields of their records.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/corpus/byte_source.h"
#include "text/corpus/documents.h"

namespace twobw::corpus {

// Lines are held in memory whole.
inline constexpr std::size_t kLongestLine = std::size_t{16} << 20;

class LineReader {
 public:
  LineReader(Window window, std::string path) : window_(std::move(window)), path_(std::move(path)) {}

  // Returns a line without "\n" or "\r\n", or nothing at the end. Throws InputError above kLongestLine.
  std::optional<std::string_view> next();
  // Skips lines of these characters alone.
  std::optional<std::string_view> next_except(std::string_view blanks);

  std::int64_t line() const { return line_; }  // number of the last line
  std::string place() const;                   // "x.jsonl:7"
  std::int64_t position() const { return window_.position(); }

 private:
  Window window_;
  std::string path_;
  std::int64_t line_ = 0;
};

// Field of a tsv line; nothing if it has fewer fields.
std::optional<std::string_view> tsv_field(std::string_view line, std::size_t column);

// Number of a tsv column, from 1; 0 for a name.
std::size_t column_number(const std::string& column);

// Index of a named column; `place` names the line in the InputError.
std::size_t find_column(std::string_view header, const std::string& column, const std::string& place);

// String field of a jsonl line. `place` names the line in the InputError: "x.jsonl:7".
std::string field_text(std::string_view line, const std::string& field, const std::string& place);

class RecordReader {
 public:
  // The name of the file determines its format, as for twobw prepare; gzip and zstd are decompressed. Fields
  // of tsv are columns, all by their names in the first line, or all by their numbers from 1 without such a
  // line. Throws InputError.
  RecordReader(const std::string& path, std::vector<std::string> fields);
  RecordReader(std::unique_ptr<ByteSource> source, const std::string& path, std::vector<std::string> fields);

  // Returns the fields of a record in the given order, or nothing at the end. Numbers and booleans of jsonl
  // are returned as they are written. Throws InputError.
  std::optional<std::vector<std::string>> next();

  std::string place() const { return lines_.place(); }  // of the last record: "x.tsv:7"

 private:
  std::vector<std::string> read_tsv(std::string_view line) const;
  std::vector<std::string> read_json(std::string_view line) const;

  std::vector<std::string> fields_;
  Format format_;
  LineReader lines_;
  std::vector<std::size_t> columns_;  // of tsv
};

// Reads `field` of every record of a tsv or jsonl file, or every line of another file. Throws InputError.
std::vector<std::string> read_texts(const std::string& path, const std::string& field);

}  // namespace twobw::corpus
