#include "text/corpus/records.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/text.h"

namespace twobw::corpus {

std::size_t column_number(const std::string& column) {
  return parse_number<std::size_t>(column).value_or(0);
}

std::optional<std::string_view> tsv_field(std::string_view line, std::size_t column) {
  for (; column > 0; --column) {
    const std::size_t tab = line.find('\t');
    if (tab == std::string_view::npos) return std::nullopt;
    line.remove_prefix(tab + 1);
  }
  return line.substr(0, line.find('\t'));
}

std::size_t find_column(std::string_view header, const std::string& column, const std::string& place) {
  std::size_t found = 0;
  for (; const auto field = tsv_field(header, found); ++found) {
    if (*field == column) return found;
  }
  fail_input("'{}' has no column '{}'; its columns are {}", place, column, shown_name(header));
}

std::string LineReader::place() const {
  return fmt::format("{}:{}", path_, line_);
}

std::optional<std::string_view> LineReader::next() {
  std::size_t searched = 0;
  for (std::size_t wanted = 1;;) {
    const std::string_view ahead = window_.ahead(wanted);
    const std::size_t stop = ahead.find('\n', searched);
    const bool found = stop != std::string_view::npos;
    const bool last = ahead.size() < wanted;
    if (found || last) {
      if (!found && ahead.empty()) return std::nullopt;
      ++line_;
      window_.skip(found ? stop + 1 : ahead.size());
      std::string_view line = ahead.substr(0, stop);
      if (line.ends_with('\r')) line.remove_suffix(1);
      return line;
    }
    if (ahead.size() > kLongestLine) {
      fail_input("'{}:{}' is longer than {} MiB; a document must fit memory", path_, line_ + 1,
                 kLongestLine >> 20);
    }
    searched = ahead.size();
    wanted = std::max(ahead.size() + 1, ahead.size() * 2);
  }
}

std::optional<std::string_view> LineReader::next_except(std::string_view blanks) {
  std::optional<std::string_view> line;
  do line = next();
  while (line && line->find_first_not_of(blanks) == std::string_view::npos);
  return line;
}

std::string field_text(std::string_view line, const std::string& field, const std::string& place) {
  nlohmann::json record;
  try {
    record = nlohmann::json::parse(line);
  } catch (const nlohmann::json::parse_error& error) {
    fail_input("'{}' is not valid JSON in UTF-8 (at byte {}); every line must be one object", place,
               error.byte);
  } catch (const nlohmann::json::out_of_range&) {
    fail_input("'{}' is not valid JSON: a number in it is too large", place);
  }
  if (!record.is_object()) fail_input("'{}' is not a JSON object; every line must be one", place);
  const auto found = record.find(field);
  if (found == record.end())
    fail_input("'{}' has no field '{}'; --field (of a run: data.text) names the one with the text", place,
               field);
  if (!found->is_string()) fail_input("'{}': field '{}' must be a text", place, field);
  return std::move(found->get_ref<std::string&>());
}

RecordReader::RecordReader(const std::string& path, std::vector<std::string> fields)
    : RecordReader(open_source(path), path, std::move(fields)) {}

RecordReader::RecordReader(std::unique_ptr<ByteSource> source, const std::string& path,
                           std::vector<std::string> fields)
    : fields_(std::move(fields)), format_(format_of(path)), lines_(Window(std::move(source)), path) {
  if (format_ == Format::kText)
    fail_input("'{}' does not name a file of records; it must end in .tsv, .jsonl, .ndjson or .json", path);
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
  const bool tsv = format_ == Format::kTsv;
  const auto line = lines_.next_except(tsv ? "" : " \t");
  if (!line) return std::nullopt;
  return tsv ? read_tsv(*line) : read_json(*line);
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
  if (!record.is_object()) fail_input("'{}' is not a JSON object in UTF-8; every line must be one", place());
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
