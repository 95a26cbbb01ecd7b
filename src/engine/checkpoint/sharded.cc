#include "engine/checkpoint/sharded.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/output_file.h"

namespace twobw::checkpoint {
namespace {

at::ScalarType type_of(const NamedTensor& entry, at::ScalarType stored) {
  return entry.tensor.is_floating_point() ? stored : entry.tensor.scalar_type();
}

std::uint64_t stored_bytes(const NamedTensor& entry, at::ScalarType stored) {
  return static_cast<std::uint64_t>(entry.tensor.numel()) * c10::elementSize(type_of(entry, stored));
}

void save_file(const std::string& path, std::vector<NamedTensor> tensors, at::ScalarType stored) {
  const auto is_number = [](const NamedTensor& entry) { return entry.tensor.is_floating_point(); };
  if (std::ranges::all_of(tensors, is_number)) return save_safetensors(path, tensors, stored);
  for (NamedTensor& entry : tensors) entry.tensor = entry.tensor.to(type_of(entry, stored));
  save_as_they_are(path, tensors);
}

std::vector<std::vector<NamedTensor>> split_shards(const std::vector<NamedTensor>& tensors,
                                                   at::ScalarType stored, std::uint64_t limit) {
  std::vector<std::vector<NamedTensor>> shards(1);
  std::uint64_t filled = 0;
  for (const NamedTensor& entry : tensors) {
    const std::uint64_t bytes = stored_bytes(entry, stored);
    if (!shards.back().empty() && filled + bytes > limit) {
      shards.emplace_back();
      filled = 0;
    }
    shards.back().push_back(entry);
    filled += bytes;
  }
  return shards;
}

}  // namespace

void save_sharded(const std::string& folder, const std::vector<NamedTensor>& tensors, at::ScalarType stored,
                  std::uint64_t limit) {
  const auto shards = split_shards(tensors, stored, limit);
  if (shards.size() == 1) return save_file(folder + "/model.safetensors", tensors, stored);
  std::uint64_t total = 0;
  nlohmann::json files;  // in the order of the names
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string file = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    save_file(folder + "/" + file, shards[i], stored);
    for (const NamedTensor& entry : shards[i]) {
      files[entry.name] = file;
      total += stored_bytes(entry, stored);
    }
  }
  nlohmann::ordered_json index;
  index["metadata"] = {{"total_size", total}};
  index["weight_map"] = nlohmann::ordered_json(files);
  replace_text(folder + "/model.safetensors.index.json", index.dump(2) + "\n");
}

}  // namespace twobw::checkpoint
