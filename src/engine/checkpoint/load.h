// Reads and verifies checkpoints: all tensors, or a selection.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/checkpoint/formats/manifest.h"

namespace twobw::checkpoint {

inline constexpr const char* kModel = "model";  // folder of the weights
inline constexpr const char* kState =
    "state.safetensors";  // optimizer state and the weights of the next batch

bool holds_tensors(const std::string& name);

// Checksum of a safetensors header, or of a whole file of another kind. Throws InputError.
std::string start_checksum(const std::string& path);

// Checksum of the elements in order; on the CPU.
std::string tensor_checksum(const at::Tensor& tensor);

struct Loaded {
  Manifest manifest;
  // Read-only views of mapped files, which must not change during their lifetime.
  std::map<std::string, at::Tensor> model, state;
};

// Selection by stored tensor name.
struct Wanted {
  std::function<bool(const std::string&name)> model, state;
};

// Verifies the checksums of the manifest, of all headers and other files, and of the selected tensors; other
// tensors are not read. Throws InputError naming the file and tensor.
Loaded load(const std::string& folder, const Wanted& wanted);
// Selects all tensors.
Loaded load(const std::string& folder);
// All defects, one sentence each; empty if the checkpoint is intact.
std::vector<std::string> find_problems(const std::string& folder);

}  // namespace twobw::checkpoint
