// The parts of tokenizer.json that every model shares, and the names of special tokens.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "tokenizer/frame.h"
#include "tokenizer/json_part.h"

namespace twobw::tokenizer {

// One of "added_tokens".
AddedToken read_added_token(const JsonPart& part, Id id);

std::vector<AddedToken> read_added_tokens(const JsonPart& list);

// Prefix and suffix of `frame`, from "post_processor".
void read_post_processor(const JsonPart& part, Frame& frame);

using FindToken = std::function<std::optional<Id>(std::string_view)>;

// From tokenizer_config.json where there is one ("bos_token"), else the usual names.
SpecialIds find_special(const FindToken& find, const std::optional<JsonPart>& config);

}  // namespace twobw::tokenizer
