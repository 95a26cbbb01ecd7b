// What stands around a text for the model: [CLS] and [SEP], or what else the tokenizer begins a text with.
#pragma once

#include <cstddef>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace twobw::data {

struct TextFrame {
  std::vector<tokenizer::Id> before, after;
  tokenizer::Id pad = 0;
  bool cuts_front = false;

  explicit TextFrame(const tokenizer::Tokenizer& tokenizer)
      : before(tokenizer.prefix()),
        after(tokenizer.suffix()),
        pad(tokenizer.special().pad.value_or(0)),
        cuts_front(tokenizer.cuts_front()) {
    if (!separates(tokenizer)) return;
    before = {*tokenizer.special().cls};
    after = {*tokenizer.special().sep};
  }

  static bool separates(const tokenizer::Tokenizer& tokenizer) {
    return tokenizer.special().cls && tokenizer.special().sep;
  }
  // Leaves at most `most` tokens of a text.
  void cut(std::vector<tokenizer::Id>& text, std::size_t most) const {
    if (text.size() <= most) return;
    const auto gone = static_cast<std::ptrdiff_t>(text.size() - most);
    text.erase(cuts_front ? text.begin() : text.end() - gone, cuts_front ? text.begin() + gone : text.end());
  }
  // Of one text, or of two, each of which has an end.
  std::size_t size(int texts) const { return before.size() + static_cast<std::size_t>(texts) * after.size(); }
};

}  // namespace twobw::data
