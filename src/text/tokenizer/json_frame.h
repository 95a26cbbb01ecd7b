// The parts of tokenizer.json that every model shares, and the names of special tokens.
#pragma once

#include <optional>
#include <string_view>

#include "text/tokenizer/beside.h"
#include "text/tokenizer/frame.h"
#include "text/tokenizer/json_part.h"
#include "text/tokenizer/vocabulary.h"

namespace twobw::tokenizer {

// One of "added_tokens".
AddedToken read_added_token(const JsonPart& part, Id id);

std::vector<AddedToken> read_added_tokens(const JsonPart& list);

// Prefix and suffix of `frame`, from "post_processor".
void read_post_processor(const JsonPart& part, Frame& frame);

// What a tokenizer.json says of them.
Frame read_frame(const JsonPart& root);

// Added tokens and special ids, from what lies beside the tokenizer's file, else the usual names.
void complete_frame(const Beside& beside, const Vocabulary& vocabulary, Frame& frame,
                    const Beside::Defaults& defaults = {});

}  // namespace twobw::tokenizer
