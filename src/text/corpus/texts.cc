#include "text/corpus/texts.h"

#include "text/corpus/byte_source.h"
#include "text/corpus/inputs.h"
#include "text/corpus/line_documents.h"
#include "text/corpus/records.h"

namespace twobw::corpus {

std::vector<std::string> read_texts(const std::string& path, const std::string& field) {
  std::vector<std::string> texts;
  if (format_of(path) == Format::kText) {
    LineReader lines(Window(open_source(path)), path);
    while (const auto line = lines.next()) texts.emplace_back(*line);
  } else {
    RecordReader records(path, {field});
    while (auto record = records.next()) texts.push_back(std::move(record->front()));
  }
  return texts;
}

}  // namespace twobw::corpus
