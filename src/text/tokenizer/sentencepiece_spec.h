// The few settings inside a sentencepiece model that the library does not tell. A model is a protocol buffer.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>

#include "text/tokenizer/tokenizer.h"

namespace twobw::tokenizer {

struct SentencepieceSpec {
  bool add_prefix = true;      // a space before the text
  bool squeeze_spaces = true;  // several spaces become one, those at the ends none
  std::unordered_set<Id> user_defined;
};

// What is not a protocol buffer gives the defaults; the library refuses it.
SentencepieceSpec read_sentencepiece_spec(std::string_view model);

// The same model without a space before the text: of a field that is written twice, the last counts.
std::string without_prefix(std::string model);

}  // namespace twobw::tokenizer
