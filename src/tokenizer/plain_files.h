// Tokenizers as their first publishers wrote them: a vocabulary and merges, or a vocabulary alone.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tokenizer/json_part.h"
#include "tokenizer/tokenizer.h"

namespace twobw::tokenizer {

// `config`: tokenizer_config.json, where there is one.
std::unique_ptr<Tokenizer> read_vocab_and_merges(const std::string& vocab_path,
                                                 const std::string& merges_path,
                                                 const std::optional<JsonPart>& config);

// A token a line; the number of the line is the id. Lower case unless the configuration says otherwise.
std::unique_ptr<Tokenizer> read_vocab_txt(const std::string& path, const std::optional<JsonPart>& config);

}  // namespace twobw::tokenizer
