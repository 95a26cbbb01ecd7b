// The safetensors format (Hugging Face): named tensors in one file. Format: docs/files.md.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <string>
#include <vector>

namespace twobw::checkpoint {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;  // float32, unless it is saved as it is
};

// Writes a temporary file beside `path` and renames it, so that a former file is never left half written.
// `stored`: float32, bfloat16 or float16, to which the numbers are rounded.
void save_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                      at::ScalarType stored = at::kFloat);

// The same, each tensor in its own type: these and float64 and int64.
void save_as_they_are(const std::string& path, const std::vector<NamedTensor>& tensors);

// Throws InputError when the file is missing or not in the format. Only float32.
std::map<std::string, at::Tensor> load_safetensors(const std::string& path);

}  // namespace twobw::checkpoint
