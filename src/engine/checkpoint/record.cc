#include "engine/checkpoint/record.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "core/base/error.h"
#include "core/base/text_file.h"
#include "engine/checkpoint/checksum.h"

namespace twobw::checkpoint {
namespace {

// The length of a safetensors file's header, its own eight bytes included, and the header.
std::string read_start(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::uint64_t length = 0;
  file.read(reinterpret_cast<char*>(&length), sizeof length);
  std::error_code error;
  const std::uint64_t size = std::filesystem::file_size(path, error);
  if (!file || error || size < sizeof length || length > size - sizeof length)
    fail_input("'{}' is damaged: its header does not fit", path);
  std::string text(sizeof length + length, '\0');
  file.seekg(0);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file) fail_input("'{}' cannot be read: {}", path, std::strerror(errno));
  return text;
}

}  // namespace

bool holds_tensors(const std::string& name) {
  return name.ends_with(".safetensors");
}

std::string start_checksum(const std::string& path) {
  return checksum(holds_tensors(path) ? read_start(path) : read_text("checkpoint", path));
}

std::string tensor_checksum(const at::Tensor& tensor) {
  const at::Tensor data = tensor.contiguous();
  return checksum(data.const_data_ptr(), data.nbytes());
}

}  // namespace twobw::checkpoint
