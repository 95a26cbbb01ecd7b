// The next token by a model's logits. No LibTorch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace twobw::inference {

struct Sampling {
  double temperature = 0.8;       // 0: always the likeliest
  int top_k = 0;                  // only the likeliest so many; 0: all
  double top_p = 1;               // only the likeliest that together have this probability; in (0, 1]
  double repetition_penalty = 1;  // above 1: tokens that were there already become less likely (Keskar 2019)
  std::uint64_t seed = 0;

  // Whether the likeliest is taken as it is.
  bool is_argmax() const { return temperature == 0 && repetition_penalty == 1; }
};

// A number in [0, 1) that depends on the seed, the prompt's number and the token's place in its sequence.
double uniform(std::uint64_t seed, std::int64_t prompt, std::int64_t place);

// `history`: the tokens of prompt and text so far. `random` in [0, 1). In this order: penalty, temperature,
// top-k, top-p, as transformers does; then the token at which the probabilities, added up in the order of the
// tokens, pass `random`. Throws RunError where a logit is not finite.
std::int64_t choose_token(std::span<const float> logits, std::span<const std::int64_t> history,
                          const Sampling& sampling, double random);

// The probabilities that it draws from; of temperature 0 all is on one token.
std::vector<double> probabilities(std::span<const float> logits, std::span<const std::int64_t> history,
                                  const Sampling& sampling);

}  // namespace twobw::inference
