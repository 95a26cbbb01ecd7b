#include "text/corpus/documents.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "text/corpus/byte_source.h"
#include "text/corpus/records.h"
#include "text/tokenizer/utf8.h"

namespace twobw::corpus {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFormatNames[] = {"text", "jsonl", "tsv"};  // by Format

Format chosen_format(const std::string& path, const std::string& format) {
  if (format == "auto") return format_of(path);
  for (const Format known : {Format::kText, Format::kJsonl, Format::kTsv}) {
    if (format_name(known) == format) return known;
  }
  fail_input("--format is '{}'; it must be auto, text, jsonl or tsv", format);
}

Input look_at(const std::string& path, const std::string& format) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    fail_input("input '{}' cannot be read: {}", path, std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) fail_input("input '{}' must be a file or a folder", path);
  constexpr std::int64_t kSecond = 1'000'000'000;
  return {path, chosen_format(path, format), status.st_size,
          status.st_mtim.tv_sec * kSecond + status.st_mtim.tv_nsec};
}

// Does not follow links to folders, which may be circular.
std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  fs::recursive_directory_iterator at(folder, error);
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    const bool hidden = at->path().filename().string().starts_with(".");
    if (hidden && at->is_directory()) at.disable_recursion_pending();
    if (!hidden && at->is_regular_file()) paths.push_back(at->path().string());
  }
  if (error) fail_input("input '{}' cannot be read: {}", folder, error.message());
  std::sort(paths.begin(), paths.end());
  return paths;
}

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

// The file is one document.
class WholeText : public DocumentReader {
 public:
  explicit WholeText(Window window) : window_(std::move(window)) {}
  std::int64_t position() const override { return window_.position(); }
  std::optional<Part> next() override {
    if (ended_) return std::nullopt;
    const std::string_view ahead = window_.ahead(kLongestPiece + 1);
    const std::size_t length = piece_length(ahead);
    ended_ = length == ahead.size();
    window_.skip(length);
    return Part{ahead.substr(0, length), ended_};
  }

 private:
  Window window_;
  bool ended_ = false;
};

// Length of a blank line at the start of `text`, with its end; 0: none. `whole`: end of the file.
std::size_t blank_line(std::string_view text, bool whole) {
  const std::size_t stop = text.find_first_not_of(" \t\r\f\v");
  if (stop == std::string_view::npos) return whole ? text.size() : 0;
  return text[stop] == '\n' ? stop + 1 : 0;
}

// End of the last line before a blank one; npos: none.
std::size_t block_end(std::string_view text, bool whole) {
  for (std::size_t at = text.find('\n'); at != std::string_view::npos; at = text.find('\n', at + 1)) {
    if (at + 1 < text.size() && blank_line(text.substr(at + 1), whole) > 0) return at + 1;
  }
  return whole ? text.size() : std::string_view::npos;
}

// Documents between blank lines.
class TextBlocks : public DocumentReader {
 public:
  explicit TextBlocks(Window window) : window_(std::move(window)) {}
  std::int64_t position() const override { return window_.position(); }
  std::optional<Part> next() override {
    if (!within_) skip_blank_lines();
    const std::string_view ahead = window_.ahead(kLongestPiece + 1);
    const bool whole = ahead.size() <= kLongestPiece;
    // The last piece may end right before the blank line.
    if (within_ && (ahead.empty() || (at_line_start_ && blank_line(ahead, whole) > 0))) {
      within_ = false;
      return Part{"", true};
    }
    if (ahead.empty()) return std::nullopt;
    const std::size_t end = block_end(ahead.substr(0, kLongestPiece), whole);
    within_ = end == std::string_view::npos;
    const std::size_t length = within_ ? piece_length(ahead) : end;
    at_line_start_ = ahead[length - 1] == '\n';
    window_.skip(length);
    return Part{ahead.substr(0, length), !within_};
  }

 private:
  void skip_blank_lines() {
    for (;;) {
      const std::string_view ahead = window_.ahead(kLongestPiece + 1);
      const std::size_t length = blank_line(ahead, ahead.size() <= kLongestPiece);
      if (length == 0) return;
      window_.skip(length);
    }
  }

  Window window_;
  bool within_ = false;  // inside a document
  bool at_line_start_ = true;
};

// One document per line, except empty lines: the whole line of jsonl, or a field of tsv, which has neither
// quotes nor escapes.
class DocumentLines : public DocumentReader {
 public:
  DocumentLines(Window window, const Input& input, const std::string& column)
      : lines_(std::move(window), input.path), is_tsv_(input.format == Format::kTsv) {
    if (!is_tsv_) return;
    if (const std::size_t number = column_number(column); number > 0) {
      column_ = number - 1;
    } else if (const auto header = lines_.next()) {
      column_ = find_column(*header, column, lines_.place());
    }
  }
  std::int64_t position() const override { return lines_.position(); }
  std::optional<Part> next() override {
    auto text = lines_.next_except(is_tsv_ ? "" : " \t");
    if (!text) return std::nullopt;
    if (is_tsv_) text = tsv_field(*text, column_);
    if (!text) fail_input("'{}' has no column {}; it has fewer fields", lines_.place(), column_ + 1);
    return Part{*text, true, lines_.line()};
  }

 private:
  LineReader lines_;
  bool is_tsv_;
  std::size_t column_ = 0;
};

}  // namespace

Format format_of(const std::string& path) {
  fs::path name = fs::path(path).filename();
  if (name.extension() == ".gz" || name.extension() == ".zst") name = name.stem();
  const std::string ending = name.extension().string();
  if (ending == ".jsonl" || ending == ".ndjson" || ending == ".json") return Format::kJsonl;
  return ending == ".tsv" ? Format::kTsv : Format::kText;
}

std::string format_name(Format format) {
  return kFormatNames[static_cast<std::size_t>(format)];
}

std::vector<Input> list_inputs(const std::vector<std::string>& paths, const std::string& format) {
  std::vector<Input> inputs;
  for (const std::string& path : paths) {
    if (!fs::is_directory(path)) {
      inputs.push_back(look_at(path, format));
      continue;
    }
    const std::vector<std::string> files = files_below(path);
    if (files.empty()) fail_input("input folder '{}' holds no files", path);
    for (const std::string& file : files) inputs.push_back(look_at(file, format));
  }
  return inputs;
}

std::size_t piece_length(std::string_view text) {
  if (text.size() <= kLongestPiece) return text.size();
  for (std::size_t at = kLongestPiece; at > 1; --at) {
    if (text[at - 1] == '\n' && is_word(text[at]) && !is_space(text[at - 2])) return at;
  }
  for (std::size_t at = kLongestPiece; at > 0; --at) {
    if (text[at] == ' ' && !is_space(text[at - 1])) return at;
  }
  std::size_t at = kLongestPiece;
  while (at > kLongestPiece - 4 && tokenizer::continues_character(text[at])) --at;
  return at;
}

std::unique_ptr<DocumentReader> read_documents(const Input& input, const DocumentOptions& options) {
  Window window(open_source(input.path));
  if (input.format != Format::kText)
    return std::make_unique<DocumentLines>(std::move(window), input, options.column);
  if (options.blank_lines) return std::make_unique<TextBlocks>(std::move(window));
  return std::make_unique<WholeText>(std::move(window));
}

}  // namespace twobw::corpus
