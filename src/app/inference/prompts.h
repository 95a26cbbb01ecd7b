// Prompts from a file or from the command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace twobw::inference {

// Text, or the ids of tokens.
struct GivenPrompt {
  std::string text = {};
  std::vector<std::int64_t> ids = {};  // empty: it is text
};

// One a line; of a file that ends in .jsonl, .ndjson or .json the field `prompt` of every line, or `ids`, a
// list of tokens. Throws InputError, for a line that is empty too.
std::vector<GivenPrompt> read_prompts(const std::string& path);

// "1 2 3" or "1,2,3". Throws InputError.
GivenPrompt parse_ids(const std::string& text);

}  // namespace twobw::inference
