// What tokenizers have besides their model.
#pragma once

#include <vector>

#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/tokenizer.h"

namespace twobw::tokenizer {

struct Frame {
  std::vector<AddedToken> added;
  std::vector<Id> prefix, suffix;  // around a sequence for the model
  SpecialIds special;
  bool cuts_front = false;  // a text that is too long loses its beginning
};

}  // namespace twobw::tokenizer
