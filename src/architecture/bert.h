// Sizes of bert's layers that a configuration may leave open.
#pragma once

#include <cstdint>

#include "base/config.h"

namespace twobw::architecture {

inline std::int64_t inner_size(const ModelConfig& config) {
  return config.hidden > 0 ? config.hidden : 4LL * config.width;
}

}  // namespace twobw::architecture
