// What BERT is trained on (Devlin et al. 2018): some tokens of a sequence are to be predicted. Of these eight
// in ten are seen as the mask, one as another token, and one as it is.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/data/batch.h"

namespace twobw::data {

struct Masking {
  double probability = 0.15;  // that a token is to be predicted, or a word as a whole
  std::int64_t mask = 0;
  std::int64_t vocab = 1;  // other tokens are drawn from those below it
  // By token; false beyond the end.
  std::vector<bool> special = {};    // never to be predicted
  std::vector<bool> continues = {};  // belongs to the word of the token before it
};

// `tokens` become what is seen, `targets`, of the same length, what is to be predicted. A function of its
// arguments alone.
void mask_tokens(const Masking& masking, std::uint64_t key, std::span<std::int64_t> tokens,
                 std::span<std::int64_t> targets);

}  // namespace twobw::data
