// Tensors as the weights of a Hugging Face folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/checkpoint/safetensors.h"

namespace twobw::checkpoint {

inline constexpr std::uint64_t kShardBytes = 5'000'000'000;

// Writes model.safetensors, or where that would be longer than `limit` model-00001-of-0000N.safetensors, each
// of at most `limit` bytes of tensors unless one tensor alone has more, and model.safetensors.index.json.
// Numbers become `stored`; tensors of whole numbers (int64) stay what they are.
void save_sharded(const std::string& folder, const std::vector<NamedTensor>& tensors, at::ScalarType stored,
                  std::uint64_t limit = kShardBytes);

}  // namespace twobw::checkpoint
