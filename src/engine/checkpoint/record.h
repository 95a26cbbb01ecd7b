// What the checksums of a checkpoint's files are of (manifest.h): the start of a file, and every tensor in
// it.
#pragma once

#include <ATen/ATen.h>

#include <string>

namespace twobw::checkpoint {

inline constexpr const char* kModel = "model";              // the folder of the weights
inline constexpr const char* kState = "state.safetensors";  // the rest

bool holds_tensors(const std::string& name);

// Of a file's header where it holds tensors, which have their own; else of all of it. Throws InputError.
std::string start_checksum(const std::string& path);

// Of the elements, in their order; on the CPU.
std::string tensor_checksum(const at::Tensor& tensor);

}  // namespace twobw::checkpoint
