// Safetensors files, and model folders in Hugging Face's layout. Format: docs/reference/run-directory.md.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/mapped_file.h"
#include "engine/checkpoint/formats/safetensors_header.h"

namespace twobw::checkpoint {

// Whether TensorFile::view reads its type: F32, BF16, F16 or I64.
bool can_view(const StoredTensor& tensor);

// A mapped file: opening it reads only the header; the pages of a tensor are read on first use.
class TensorFile {
 public:
  // Throws InputError if the file cannot be read or is not in the format.
  explicit TensorFile(const std::string& path);

  const std::string& path() const { return path_; }
  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }

  // A read-only view in the stored number format, which keeps the file mapped. The name must exist. Throws
  // InputError unless can_view().
  at::Tensor view(const std::string& name) const;

 private:
  std::string path_;
  std::shared_ptr<const MappedFile> file_;
  std::map<std::string, StoredTensor> tensors_;
};

// The tensors of a folder: model.safetensors, or the files in model.safetensors.index.json.
class TensorFolder {
 public:
  // Throws InputError if they are missing, or the index and the files disagree.
  explicit TensorFolder(std::string folder);

  const std::string& path() const { return folder_; }
  std::vector<std::string> names() const;                   // sorted
  const StoredTensor* find(const std::string& name) const;  // null if missing

  // See TensorFile::view.
  at::Tensor view(const std::string& name) const;

 private:
  std::string folder_;
  std::map<std::string, TensorFile> files_;
  std::map<std::string, const TensorFile*> file_of_;
};

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

// Replaces `path` atomically. Floating-point tensors are rounded to `stored` (float32, bfloat16 or float16;
// nothing: kept in their own type); int64 tensors keep their type.
void save_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                      std::optional<at::ScalarType> stored = at::kFloat);

inline constexpr std::uint64_t kShardBytes = 5'000'000'000;

// Writes model.safetensors or, above `limit` bytes, model-00001-of-0000N.safetensors and
// model.safetensors.index.json. A shard exceeds `limit` only if it is a single tensor.
void save_sharded(const std::string& folder, const std::vector<NamedTensor>& tensors, at::ScalarType stored,
                  std::uint64_t limit = kShardBytes);

// Contents of config.json and similar files, by name.
using ModelFiles = std::map<std::string, std::string>;

// Creates the folder and writes the shards and `files`, synced to disk.
void write_model(const std::string& folder, const std::vector<NamedTensor>& tensors, const ModelFiles& files,
                 at::ScalarType stored = at::kFloat, std::uint64_t limit = kShardBytes);

}  // namespace twobw::checkpoint
