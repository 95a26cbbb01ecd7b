// What a sequence with masked tokens is made of besides the text.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/config.h"
#include "engine/data/masking.h"
#include "text/tokenizer/tokenizer.h"

namespace twobw::data {

struct MaskedFrame {
  Masking masking;
  std::vector<std::int64_t> before = {}, after = {};  // [CLS] and [SEP], or nothing
};

// By the tokenizer that made the token files. Throws InputError where it has no mask, or data.whole_words
// asks for words that it cannot tell.
MaskedFrame masked_frame(const Config& config, const tokenizer::Tokenizer& tokenizer);

}  // namespace twobw::data
