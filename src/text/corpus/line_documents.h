// Documents of files with one a line.
#pragma once

#include "text/corpus/documents.h"
#include "text/corpus/window.h"

namespace twobw::corpus {

class LineReader {
 public:
  LineReader(Window window, std::string path) : window_(std::move(window)), path_(std::move(path)) {}

  // Without its end, "\n" or "\r\n". Nothing: no more lines. Throws InputError for one above kLongestLine.
  std::optional<std::string_view> next();

  std::int64_t line() const { return line_; }  // the number of the last one
  std::string place() const;                   // "x.jsonl:7"
  std::int64_t position() const { return window_.position(); }

 private:
  Window window_;
  std::string path_;
  std::int64_t line_ = 0;
};

// Of a line of tsv; nothing where it has fewer fields.
std::optional<std::string_view> tsv_field(std::string_view line, std::size_t column);

// A column of tsv is named by a number from 1 on, which this gives, or by a name: 0.
std::size_t column_number(const std::string& column);

// Of the column of that name in the first line of a file; `place` names the line in the InputError.
std::size_t find_column(std::string_view header, const std::string& column, const std::string& place);

// Lines that are empty are left out.
class JsonLines : public DocumentReader {
 public:
  JsonLines(Window window, std::string path) : lines_(std::move(window), std::move(path)) {}
  std::optional<Part> next() override;
  std::int64_t position() const override { return lines_.position(); }

 private:
  LineReader lines_;
};

// Fields lie between tabs; there are no quotes and no escapes. Lines that are empty are left out.
class TsvLines : public DocumentReader {
 public:
  TsvLines(Window window, std::string path, const std::string& column);
  std::optional<Part> next() override;
  std::int64_t position() const override { return lines_.position(); }

 private:
  LineReader lines_;
  std::size_t column_ = 0;
};

}  // namespace twobw::corpus
