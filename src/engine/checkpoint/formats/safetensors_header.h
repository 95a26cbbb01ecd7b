// The safetensors format without LibTorch: headers and indexes, from untrusted files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace twobw::checkpoint {

struct StoredTensor {
  std::string dtype;  // "F32"
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  // bytes of the file

  std::uint64_t bytes() const { return end - begin; }
};

// The tensors of a file. Throws InputError naming `path` unless each lies within the file and has the length
// of its type and shape, none overlap, and the file ends with the last.
std::map<std::string, StoredTensor> read_header(std::span<const std::byte> file, const std::string& path);

// Parses model.safetensors.index.json: tensor name to file name. Throws InputError naming `path` unless every
// file is a .safetensors of the same folder.
std::map<std::string, std::string> parse_index(std::string_view text, const std::string& path);

// Throws InputError unless every tensor is in the file that the index names, and only there. `tensors`: names
// by file.
void check_index(const std::map<std::string, std::string>& index,
                 const std::map<std::string, std::set<std::string>>& tensors, const std::string& path);

}  // namespace twobw::checkpoint
