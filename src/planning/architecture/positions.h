// Learned positions, of families that have them.
#pragma once

#include <cstdint>

#include "core/base/config.h"

namespace twobw::architecture {

// Rows of the table; a sequence has the first model.context of them.
inline std::int64_t positions_of(const ModelConfig& config) {
  return config.positions > 0 ? config.positions : config.context;
}

}  // namespace twobw::architecture
