// XXH3 of bytes: tells a damaged file from a good one, and nothing about who wrote it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace twobw::checkpoint {

// 16 digits.
std::string checksum(const void* data, std::size_t bytes);
std::string checksum(std::string_view text);

}  // namespace twobw::checkpoint
