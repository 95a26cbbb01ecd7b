// Decodes ids as they come. A token may end inside a character: only whole characters are given out.
#pragma once

#include <string>

#include "text/tokenizer/tokenizer.h"

namespace twobw::tokenizer {

class StreamDecoder {
 public:
  // `tokenizer` outlives it.
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special = false)
      : tokenizer_(tokenizer), skip_special_(skip_special) {}

  // What can be shown now, perhaps nothing. All results and that of finish() together are what decode gives.
  std::string push(Id id);

  // What is left: the start of a character that never came to its end.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_;
  bool first_ = true;
  std::string pending_;
};

}  // namespace twobw::tokenizer
