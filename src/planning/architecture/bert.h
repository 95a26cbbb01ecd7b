// Sizes of bert's layers that a configuration may leave open, and where its head begins.
#pragma once

#include <cstdint>

#include "core/base/config.h"

namespace twobw::architecture {

inline std::int64_t inner_size(const ModelConfig& config) {
  return config.hidden > 0 ? config.hidden : 4LL * config.width;
}

// It follows, or it does not.
inline constexpr int kNextSentences = 2;

// The embedding and the blocks, of five layers each.
inline int layers_below_head(const ModelConfig& config) {
  return 1 + 5 * config.layers;
}

}  // namespace twobw::architecture
