#include "text/corpus/text_documents.h"

#include "text/corpus/pieces.h"

namespace twobw::corpus {
namespace {

// Of the blank line that `text` begins with, and its end; 0 where it begins with none. `whole`: the text does
// not go on.
std::size_t blank_line(std::string_view text, bool whole) {
  const std::size_t stop = text.find_first_not_of(" \t\r\f\v");
  if (stop == std::string_view::npos) return whole ? text.size() : 0;
  return text[stop] == '\n' ? stop + 1 : 0;
}

// The end of the last line before a blank one; npos where there is none.
std::size_t block_end(std::string_view text, bool whole) {
  for (std::size_t at = text.find('\n'); at != std::string_view::npos; at = text.find('\n', at + 1)) {
    if (at + 1 < text.size() && blank_line(text.substr(at + 1), whole) > 0) return at + 1;
  }
  return whole ? text.size() : std::string_view::npos;
}

}  // namespace

std::optional<Part> WholeText::next() {
  if (ended_) return std::nullopt;
  const std::string_view ahead = window_.ahead(kLongestPiece + 1);
  const std::size_t length = piece_length(ahead);
  ended_ = length == ahead.size();
  window_.skip(length);
  return Part{ahead.substr(0, length), ended_};
}

void TextBlocks::skip_blank_lines() {
  for (;;) {
    const std::string_view ahead = window_.ahead(kLongestPiece + 1);
    const std::size_t length = blank_line(ahead, ahead.size() <= kLongestPiece);
    if (length == 0) return;
    window_.skip(length);
  }
}

std::optional<Part> TextBlocks::next() {
  if (!within_) skip_blank_lines();
  const std::string_view ahead = window_.ahead(kLongestPiece + 1);
  const bool whole = ahead.size() <= kLongestPiece;
  // A piece may have ended right before the blank line.
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

}  // namespace twobw::corpus
