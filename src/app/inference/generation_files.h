// What the files of a model say of how text is generated: generation_config.json, else config.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/inference/model_source.h"
#include "text/tokenizer/tokenizer.h"

namespace twobw::inference {

struct GenerationFiles {
  std::vector<std::int64_t> ends = {};  // tokens that end a text
  // Of generation_config.json; temperature, top-k and top-p where it asks for samples.
  std::optional<double> temperature = {}, top_p = {}, repetition_penalty = {};
  std::optional<int> top_k = {};
  std::optional<int> tokens = {};  // max_new_tokens
  // Keys there that ask for what generate() does not do.
  std::vector<std::string> not_done = {};
};

// Where the files name no tokens that end a text, they are the tokenizer's (null: none). Throws InputError
// for what no such file may have.
GenerationFiles read_generation_files(const ModelSource& source, const tokenizer::Tokenizer* tokenizer);

}  // namespace twobw::inference
