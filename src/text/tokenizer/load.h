// Opens a tokenizer wherever its files are.
#pragma once

#include <memory>
#include <string>

#include "text/tokenizer/tokenizer.h"

namespace twobw::tokenizer {

// `path` is the word "bytes", a folder or a file. Of a folder the first of these is taken: tokenizer.json,
// vocab.json with merges.txt, vocab.txt (WordPiece), tokenizer.model (sentencepiece). Throws InputError.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path);

// Whether the folder holds the files of one.
bool has_tokenizer(const std::string& folder);

// `path`, as load_tokenizer takes it; where it is gone, `model`, the folder of a model with a copy of its
// own, if it has one.
std::string present_tokenizer(const std::string& path, const std::string& model);

}  // namespace twobw::tokenizer
