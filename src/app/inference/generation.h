// Text that a model goes on with, for prompts of any lengths. What a prompt gets depends on the prompt, its
// number and the options; on CPUs to the bit, whichever other prompts there are and however many stages.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "app/inference/model_source.h"
#include "app/inference/sampler.h"
#include "text/tokenizer/tokenizer.h"

namespace twobw::inference {

constexpr int kMostTokens = 1 << 20;  // that a prompt may be continued by

struct GenerationOptions {
  Sampling sampling = {};
  int tokens = 300;                     // at most, of each prompt
  std::vector<std::string> stops = {};  // text that ends it; needs a tokenizer
  std::vector<std::int64_t> ends = {};  // tokens that end it
  int batch = 8;                        // prompts at once
};

struct Prompt {
  std::vector<std::int64_t> ids;
  bool is_empty = false;  // the text: what is generated begins one
};

enum class Finish { Length, Stop, End };
std::string_view name(Finish finish);

struct Generated {
  std::vector<std::int64_t> ids;  // the token that ended it included
  std::string text;               // without what ended it; empty without a tokenizer
  Finish finish = Finish::Length;
};

struct GenerationEvents {
  // As it comes, valid UTF-8; from another thread than the caller's.
  std::function<void(std::size_t prompt, const std::string& piece)> on_text = {};
  // In the order of the prompts.
  std::function<void(std::size_t prompt, const Generated& generated)> on_done = {};
};

// The tokens of a prompt, after those that the tokenizer begins a text with. An empty one is the end of
// another document, or of a line.
Prompt encode_prompt(const tokenizer::Tokenizer& tokenizer, const std::string& text);

// `tokenizer` may be null. When model.context is full, every further token is computed from the last
// model.context ones anew. Throws InputError for a model that does not generate, and for prompts that have no
// token, one that the model does not know, or more than model.context.
std::vector<Generated> generate(const ModelSource& source, const tokenizer::Tokenizer* tokenizer,
                                const std::vector<Prompt>& prompts, const GenerationOptions& options,
                                const GenerationEvents& events = {});

}  // namespace twobw::inference
