// Tokenizers as their first publishers wrote them: a vocabulary and merges, or a vocabulary alone.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tokenizer/json_part.h"
#include "tokenizer/tokenizer.h"

namespace twobw::tokenizer {

// What a file holds; its path names it in messages.
struct PlainFile {
  std::string path, text;
};

// vocab.json and merges.txt. `config`: tokenizer_config.json, where there is one.
std::unique_ptr<Tokenizer> read_vocab_and_merges(const PlainFile& vocab, const PlainFile& merges,
                                                 const std::optional<JsonPart>& config);

// A token a line; the number of the line is the id. Lower case unless the configuration says otherwise.
std::unique_ptr<Tokenizer> read_vocab_txt(const PlainFile& vocab, const std::optional<JsonPart>& config);

}  // namespace twobw::tokenizer
