// XXH3 of bytes: tells a damaged file from a good one, and nothing about who wrote it.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace twobw::checkpoint {

// 16 digits.
std::string checksum(const void* data, std::size_t bytes);
std::string checksum(std::string_view text);
// Of the elements, in their order; contiguous, on the CPU.
std::string checksum(const at::Tensor& tensor);

}  // namespace twobw::checkpoint
