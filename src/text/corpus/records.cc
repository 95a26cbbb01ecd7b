#include "text/corpus/records.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"

namespace twobw::corpus {
namespace {

Format record_format(const std::string& path) {
  const Format format = format_of(path);
  if (format == Format::kText)
    fail_input("'{}' is no file of records by its name; it must end in .tsv, .jsonl, .ndjson or .json", path);
  return format;
}

}  // namespace

RecordReader::RecordReader(const std::string& path, std::vector<std::string> fields)
    : RecordReader(open_source(path), path, std::move(fields)) {}

RecordReader::RecordReader(std::unique_ptr<ByteSource> source, const std::string& path,
                           std::vector<std::string> fields)
    : fields_(std::move(fields)), format_(record_format(path)), lines_(Window(std::move(source)), path) {
  if (format_ != Format::kTsv) return;
  const auto numbers =
      std::ranges::count_if(fields_, [](const auto& field) { return column_number(field) > 0; });
  if (numbers == std::ssize(fields_)) {
    for (const std::string& field : fields_) columns_.push_back(column_number(field) - 1);
    return;
  }
  if (numbers > 0)
    fail_input("columns of '{}' are given by names and by numbers; they must be all of one kind", path);
  const auto header = lines_.next();
  for (const std::string& field : fields_)
    columns_.push_back(header ? find_column(*header, field, lines_.place()) : 0);
}

std::optional<std::vector<std::string>> RecordReader::next() {
  while (const auto line = lines_.next()) {
    const bool tsv = format_ == Format::kTsv;
    if (line->find_first_not_of(tsv ? "" : " \t") == std::string_view::npos) continue;  // it is empty
    return tsv ? read_tsv(*line) : read_json(*line);
  }
  return std::nullopt;
}

std::vector<std::string> RecordReader::read_tsv(std::string_view line) const {
  std::vector<std::string> values;
  for (const std::size_t column : columns_) {
    const auto field = tsv_field(line, column);
    if (!field) fail_input("'{}' has no column {}; it has fewer fields", place(), column + 1);
    values.emplace_back(*field);
  }
  return values;
}

std::vector<std::string> RecordReader::read_json(std::string_view line) const {
  const auto record = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!record.is_object()) fail_input("'{}' is no JSON object in UTF-8; every line must be one", place());
  std::vector<std::string> values;
  for (const std::string& field : fields_) {
    const auto found = record.find(field);
    if (found == record.end()) fail_input("'{}' has no field '{}'", place(), field);
    if (!found->is_string() && !found->is_number() && !found->is_boolean())
      fail_input("'{}': field '{}' must be a text, a number or a truth value", place(), field);
    values.push_back(found->is_string() ? found->get<std::string>() : found->dump());
  }
  return values;
}

}  // namespace twobw::corpus
