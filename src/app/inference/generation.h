// Text generation for prompts of any lengths. A result depends on the prompt, its number and the options: on
// CPUs bit for bit, independent of the other prompts and the number of stages.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/inference/model_source.h"
#include "app/inference/sampler.h"
#include "text/tokenizer/tokenizer.h"

namespace twobw::inference {

constexpr int kMostTokens = 1 << 20;  // generated per prompt

struct GenerationOptions {
  Sampling sampling = {};
  int tokens = 300;                     // at most, per prompt
  std::vector<std::string> stops = {};  // stop strings; need a tokenizer
  std::vector<std::int64_t> ends = {};  // end-of-text tokens
  int batch = 8;                        // prompts computed together
};

struct Prompt {
  std::vector<std::int64_t> ids;
  bool is_empty = false;  // no text: generation starts one
};

enum class Finish { Length, Stop, End };
std::string_view name(Finish finish);

struct Generated {
  std::vector<std::int64_t> ids;  // with the end token
  std::string text;               // without the stop string; empty without a tokenizer
  Finish finish = Finish::Length;
};

struct GenerationEvents {
  // Streamed pieces of valid UTF-8, from another thread.
  std::function<void(std::size_t prompt, const std::string& piece)> on_text = {};
  // Finished prompts, in order.
  std::function<void(std::size_t prompt, const Generated& generated)> on_done = {};
};

// The tokenizer's prefix and the tokens of the prompt. An empty text becomes an end-of-text token or
// a line break.
Prompt encode_prompt(const tokenizer::Tokenizer& tokenizer, const std::string& text);

// `tokenizer` may be null. Beyond model.context, every token is computed from the last model.context tokens
// without the cache. Throws InputError for a model that does not generate, and for prompts that are empty,
// too long or have unknown tokens.
std::vector<Generated> generate(const ModelSource& source, const tokenizer::Tokenizer* tokenizer,
                                const std::vector<Prompt>& prompts, const GenerationOptions& options,
                                const GenerationEvents& events = {});

// A prompt from a file or the command line: text or token ids.
struct GivenPrompt {
  std::string text = {};
  std::vector<std::int64_t> ids = {};  // empty for text
};

// One prompt per line. In .jsonl, .ndjson and .json files a line has a field `prompt`, or a list `ids`.
// Throws InputError, also for an empty line.
std::vector<GivenPrompt> read_prompts(const std::string& path);

// "1 2 3" or "1,2,3". Throws InputError.
GivenPrompt parse_ids(const std::string& text);

// Generation settings in a model's files.
struct GenerationFiles {
  std::vector<std::int64_t> ends = {};  // end-of-text tokens
  // From generation_config.json; temperature, top-k and top-p only with do_sample.
  std::optional<double> temperature = {}, top_p = {}, repetition_penalty = {};
  std::optional<int> top_k = {};
  std::optional<int> tokens = {};             // max_new_tokens
  std::vector<std::string> unsupported = {};  // keys that generate() ignores
};

// End tokens come from generation_config.json, config.json or the tokenizer (may be null), in this order.
// Throws InputError for invalid values.
GenerationFiles read_generation_files(const ModelSource& source, const tokenizer::Tokenizer* tokenizer);

}  // namespace twobw::inference
