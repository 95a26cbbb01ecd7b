// The header of a safetensors file: what tensors it holds and where. It is not trusted: what does not fit the
// file is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace twobw::checkpoint {

struct StoredTensor {
  std::string dtype;  // "F32"
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  // bytes of the file

  std::uint64_t bytes() const { return end - begin; }
};

// Every tensor lies within the file, is as long as type and shape say, and shares no byte with another; the
// file ends with the last of them.
// Throws InputError, in which `path` names the file.
std::map<std::string, StoredTensor> read_header(std::span<const std::byte> file, const std::string& path);

}  // namespace twobw::checkpoint
