// The tokenizer.json of a BPE of characters (`byte_fallback`), in the forms that transformers 4 and 5 write
// for Llama 2, Mistral and their like. Every other form is refused by name.
#pragma once

#include <memory>

#include "text/tokenizer/beside.h"
#include "text/tokenizer/frame.h"
#include "text/tokenizer/json_part.h"
#include "text/tokenizer/tokenizer.h"

namespace twobw::tokenizer {

// Whether `model` of a tokenizer.json is one.
bool is_character_bpe(const JsonPart& model);

std::unique_ptr<Tokenizer> read_character_bpe(const JsonPart& root, const Beside& beside, Frame frame);

}  // namespace twobw::tokenizer
