// Llama: sizes that a configuration leaves open, and rotary position embedding (Su et al. 2021).
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/config.h"

namespace twobw::architecture {

inline int kv_heads(const ModelConfig& config) {
  return config.kv_heads > 0 ? config.kv_heads : config.heads;
}
inline int head_size(const ModelConfig& config) {
  return config.head_size > 0 ? config.head_size : config.width / config.heads;
}
inline std::int64_t hidden_size(const ModelConfig& config) {
  constexpr std::int64_t step = 256;
  return config.hidden > 0 ? config.hidden : (8LL * config.width / 3 + step - 1) / step * step;
}

// Radians per position for sequences of `length` tokens. Element i of a head rotates with element i + head /
// 2, by frequency i. model.rope_scaling stretches frequencies by model.rope_factor, as transformers does:
//   linear   all frequencies
//   dynamic  by a larger base, in sequences longer than the original context (NTK-aware)
//   llama3   those with less than low_freq_factor turns in the original context, none with more than
//            high_freq_factor turns, and a ramp between
std::vector<double> rotary_frequencies(const ModelConfig& config, std::int64_t length);

// True if the frequencies depend on the length.
bool depend_on_length(const ModelConfig& config, std::int64_t length);

}  // namespace twobw::architecture
