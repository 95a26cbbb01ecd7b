// Rotary position embedding (Su et al. 2021): element i of a head turns with element i + head / 2, by an
// angle that grows with the position.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/config.h"

namespace twobw::architecture {

// Radians a position, head / 2 of them, in a sequence of `length` tokens. model.rope_scaling stretches them
// by model.rope_factor, as transformers does:
//   linear   all of them;
//   dynamic  by a larger base, in sequences longer than the original context alone (NTK-aware);
//   llama3   those that turn less than low_freq_factor times in the original context, and not those that turn
//            more than high_freq_factor times, with a ramp between.
std::vector<double> rotary_frequencies(const ModelConfig& config, std::int64_t length);

// Whether they depend on the length, from the original context on.
bool depend_on_length(const ModelConfig& config, std::int64_t length);

}  // namespace twobw::architecture
