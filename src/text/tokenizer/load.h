// Opens tokenizers by path.
#pragma once

#include <memory>
#include <string>

#include "text/tokenizer/tokenizer.h"

namespace twobw::tokenizer {

// `path` is "bytes", a file, or a folder with one of tokenizer.json, vocab.json and merges.txt, vocab.txt
// (WordPiece), tokenizer.model (sentencepiece), in this order of preference. Throws InputError.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path);

// True if the folder has tokenizer files.
bool has_tokenizer(const std::string& folder);

// Returns `path`, or the model folder `model` if `path` is missing and `model` has a copy of the tokenizer.
std::string present_tokenizer(const std::string& path, const std::string& model);

}  // namespace twobw::tokenizer
