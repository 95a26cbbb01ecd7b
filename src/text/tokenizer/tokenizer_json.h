// tokenizer.json, the file format of Hugging Face's tokenizers, as far as BPE of bytes or characters and
// WordPiece need it. Whatever else a file asks for is refused by name: ids that are nearly right are worse
// than none.
#pragma once

#include <memory>

#include "text/tokenizer/beside.h"
#include "text/tokenizer/json_part.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/vocabulary.h"

namespace twobw::tokenizer {

std::unique_ptr<Tokenizer> read_tokenizer_json(const JsonPart& root, const Beside& beside);

// The `model` of a BPE has no other keys, and its ids are not random.
void check_bpe(const JsonPart& model);

// {"token": id, ...}
Vocabulary read_vocabulary(const JsonPart& object);

}  // namespace twobw::tokenizer
