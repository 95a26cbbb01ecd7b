#include "text/tokenizer/space_mark.h"

namespace twobw::tokenizer {
namespace {

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  for (std::size_t at = text.find(from); at != std::string_view::npos; at = text.find(from)) {
    result.append(text.substr(0, at)).append(to);
    text.remove_prefix(at + from.size());
  }
  return result.append(text);
}

}  // namespace

std::string mark_spaces(std::string_view text) {
  return replaced(text, " ", kSpaceMark);
}

std::string unmark_spaces(std::string_view text) {
  return replaced(text, kSpaceMark, " ");
}

}  // namespace twobw::tokenizer
