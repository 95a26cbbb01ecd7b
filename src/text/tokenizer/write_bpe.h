// A learned BPE as files that other programs read.
#pragma once

#include <string>
#include <vector>

#include "text/tokenizer/train_bpe.h"

namespace twobw::tokenizer {

// The whole of tokenizer.json; the special tokens have the last ids.
std::string tokenizer_json(const LearnedBpe& bpe, const std::vector<std::string>& special);

// Writes tokenizer.json, vocab.json and merges.txt into a folder, which is made. Throws InputError.
void write_bpe(const LearnedBpe& bpe, const std::vector<std::string>& special, const std::string& folder);

}  // namespace twobw::tokenizer
