#include "engine/checkpoint/checksum.h"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace twobw::checkpoint {

std::string checksum(const void* data, std::size_t bytes) {
  return fmt::format("{:016x}", static_cast<unsigned long long>(XXH3_64bits(data, bytes)));
}

std::string checksum(std::string_view text) {
  return checksum(text.data(), text.size());
}

}  // namespace twobw::checkpoint
