// The text of generated tokens as it can be shown: whole characters of valid UTF-8, and nothing of a stop
// string. No LibTorch.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace twobw::inference {

// How many bytes at the end of `text` may begin one of `stops`.
std::size_t begun_stop(std::string_view text, const std::vector<std::string>& stops);

class TextStream {
 public:
  // `prompt_is_empty`: the first token begins the text. `tokenizer` outlives it.
  TextStream(const tokenizer::Tokenizer& tokenizer, std::vector<std::string> stops, bool prompt_is_empty);

  // What can be shown now.
  std::string push(tokenizer::Id id);
  // What was held back, at the end; nothing after a stop.
  std::string finish();
  // A stop string has come. The text ends before it.
  bool stopped() const { return stopped_; }

 private:
  std::string release(bool at_end);

  const tokenizer::Tokenizer& tokenizer_;
  std::vector<std::string> stops_;
  bool first_;
  bool stopped_ = false;
  std::string held_;  // bytes that are not shown yet
};

}  // namespace twobw::inference
