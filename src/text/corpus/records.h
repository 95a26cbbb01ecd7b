// Lines of tsv and jsonl files as records: of each the fields that are asked for, as text.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/corpus/byte_source.h"
#include "text/corpus/inputs.h"
#include "text/corpus/line_documents.h"

namespace twobw::corpus {

class RecordReader {
 public:
  // The path's name says what it holds, as for twobw prepare; gzip and zstd are unpacked. Fields of tsv are
  // columns by their names in the first line, or all by their numbers from 1 on where no line names them.
  // Throws InputError.
  RecordReader(const std::string& path, std::vector<std::string> fields);
  // The same of bytes from elsewhere.
  RecordReader(std::unique_ptr<ByteSource> source, const std::string& path, std::vector<std::string> fields);

  // In the order of the fields. Of jsonl, numbers and truth values are texts as they are written. Nothing:
  // the end. Throws InputError.
  std::optional<std::vector<std::string>> next();

  std::string place() const { return lines_.place(); }  // of the last: "x.tsv:7"

 private:
  std::vector<std::string> read_tsv(std::string_view line) const;
  std::vector<std::string> read_json(std::string_view line) const;

  std::vector<std::string> fields_;
  Format format_;
  LineReader lines_;
  std::vector<std::size_t> columns_;  // of tsv
};

}  // namespace twobw::corpus
