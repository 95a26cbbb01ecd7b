// A model's folder in Hugging Face's layout: its weights, and small files beside them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/checkpoint/sharded.h"

namespace twobw::checkpoint {

// config.json and others: their contents by their names.
using ModelFiles = std::map<std::string, std::string>;

// Makes the folder.
void write_model(const std::string& folder, const std::vector<NamedTensor>& tensors, const ModelFiles& files,
                 at::ScalarType stored = at::kFloat, std::uint64_t limit = kShardBytes);

}  // namespace twobw::checkpoint
