#include "app/inference/text_stream.h"

#include <algorithm>
#include <utility>

#include "text/tokenizer/utf8.h"

namespace twobw::inference {

std::size_t begun_stop(std::string_view text, const std::vector<std::string>& stops) {
  std::size_t longest = 0;
  for (const std::string& stop : stops) {
    for (std::size_t size = std::min(stop.size(), text.size()); size > longest; --size) {
      if (text.ends_with(std::string_view(stop).substr(0, size))) longest = size;
    }
  }
  return longest;
}

TextStream::TextStream(const tokenizer::Tokenizer& tokenizer, std::vector<std::string> stops,
                       bool prompt_is_empty)
    : tokenizer_(tokenizer), stops_(std::move(stops)), first_(prompt_is_empty) {}

std::string TextStream::push(tokenizer::Id id) {
  if (stopped_ || tokenizer_.is_special(id)) return "";
  const std::size_t before = held_.size();
  tokenizer_.append_text(id, first_, held_);
  first_ = first_ && tokenizer_.begins_after(id, held_.size() != before);
  std::size_t end = std::string::npos;
  for (const std::string& stop : stops_) end = std::min(end, held_.find(stop));
  if (end != std::string::npos) {
    stopped_ = true;
    held_.resize(end);
  }
  return release(stopped_);
}

std::string TextStream::finish() {
  return release(true);
}

std::string TextStream::release(bool at_end) {
  std::size_t ready = held_.size();
  if (!at_end) {
    ready -= begun_stop(held_, stops_);
    ready -= tokenizer::unfinished_bytes(std::string_view(held_).substr(0, ready));
  }
  std::string shown = tokenizer::replace_invalid(std::string_view(held_).substr(0, ready));
  held_.erase(0, ready);
  return shown;
}

}  // namespace twobw::inference
