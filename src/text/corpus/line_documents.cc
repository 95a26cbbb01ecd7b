#include "text/corpus/line_documents.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/base/error.h"
#include "core/base/json.h"

namespace twobw::corpus {

std::size_t column_number(const std::string& column) {
  std::size_t number = 0;
  const char* const end = column.data() + column.size();
  const auto [stop, error] = std::from_chars(column.data(), end, number);
  return error == std::errc() && stop == end ? number : 0;
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

std::optional<Part> JsonLines::next() {
  for (;;) {
    const auto line = lines_.next();
    if (!line) return std::nullopt;
    if (line->find_first_not_of(" \t") != std::string_view::npos) return Part{*line, true, lines_.line()};
  }
}

TsvLines::TsvLines(Window window, std::string path, const std::string& column)
    : lines_(std::move(window), std::move(path)) {
  if (const std::size_t number = column_number(column); number > 0) {
    column_ = number - 1;
    return;
  }
  if (const auto header = lines_.next()) column_ = find_column(*header, column, lines_.place());
}

std::optional<Part> TsvLines::next() {
  for (;;) {
    const auto line = lines_.next();
    if (!line) return std::nullopt;
    if (line->empty()) continue;
    const auto field = tsv_field(*line, column_);
    if (!field) fail_input("'{}' has no column {}; it has fewer fields", lines_.place(), column_ + 1);
    return Part{*field, true, lines_.line()};
  }
}

}  // namespace twobw::corpus
