// Sizes of llama's layers that a configuration may leave open.
#pragma once

#include <cstdint>

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

// Throws InputError for what llama cannot be, naming the key.
void check_llama(const ModelConfig& config);

}  // namespace twobw::architecture
