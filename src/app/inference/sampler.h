// From logits to text: samples the next token, and decodes generated tokens. No LibTorch.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace twobw::inference {

struct Sampling {
  double temperature = 0.8;       // 0: argmax
  int top_k = 0;                  // 0: all tokens
  double top_p = 1;               // nucleus sampling; in (0, 1]
  double repetition_penalty = 1;  // above 1: penalizes tokens of the history (Keskar 2019)
  std::uint64_t seed = 0;

  // Whether the result is the argmax of the logits.
  bool is_argmax() const { return temperature == 0 && repetition_penalty == 1; }
};

// A number in [0, 1) from the seed, the prompt's number and the token's position.
double uniform(std::uint64_t seed, std::int64_t prompt, std::int64_t place);

// Inverse transform sampling with `random` in [0, 1), after penalty, temperature, top-k and top-p in
// transformers' order. `history`: all tokens so far. Throws RunError if a logit is not finite.
std::int64_t choose_token(std::span<const float> logits, std::span<const std::int64_t> history,
                          const Sampling& sampling, double random);

// The distribution that choose_token() samples; a single token for temperature 0.
std::vector<double> probabilities(std::span<const float> logits, std::span<const std::int64_t> history,
                                  const Sampling& sampling);

// Bytes at the end of `text` that may begin one of `stops`.
std::size_t begun_stop(std::string_view text, const std::vector<std::string>& stops);

// Streams the text of generated tokens: whole characters of valid UTF-8, and no part of a stop string.
class TextStream {
 public:
  // `prompt_is_empty`: the first token begins the text. `tokenizer` must outlive the stream.
  TextStream(const tokenizer::Tokenizer& tokenizer, std::vector<std::string> stops, bool prompt_is_empty);

  // The text that is complete after this token.
  std::string push(tokenizer::Id id);
  // The remaining text at the end; empty after a stop.
  std::string finish() { return release(true); }
  // Whether a stop string has ended the text.
  bool stopped() const { return stopped_; }

 private:
  std::string release(bool at_end);

  const tokenizer::Tokenizer& tokenizer_;
  std::vector<std::string> stops_;
  bool first_;
  bool stopped_ = false;
  std::string held_;  // bytes not returned yet
};

}  // namespace twobw::inference
