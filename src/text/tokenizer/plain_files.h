// Tokenizers as their first publishers wrote them: a vocabulary and merges, or a vocabulary alone.
#pragma once

#include <memory>
#include <string>

#include "text/tokenizer/beside.h"
#include "text/tokenizer/tokenizer.h"

namespace twobw::tokenizer {

// What a file holds; its path names it in messages.
struct PlainFile {
  std::string path, text;
};

// vocab.json and merges.txt.
std::unique_ptr<Tokenizer> read_vocab_and_merges(const PlainFile& vocab, const PlainFile& merges,
                                                 const Beside& beside);

// A token a line; the number of the line is the id. Lower case unless tokenizer_config.json says otherwise.
std::unique_ptr<Tokenizer> read_vocab_txt(const PlainFile& vocab, const Beside& beside);

}  // namespace twobw::tokenizer
