#include "checkpoint/safetensors.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"

namespace twobw::checkpoint {

using Json = nlohmann::ordered_json;

void save_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors) {
  Json header;
  header["__metadata__"] = {{"format", "pt"}};
  std::uint64_t offset = 0;
  for (const NamedTensor& entry : tensors) {
    const std::uint64_t end = offset + entry.tensor.numel() * sizeof(float);
    header[entry.name] = {
        {"dtype", "F32"}, {"shape", entry.tensor.sizes().vec()}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // data starts on eight bytes

  const std::string temporary = path + ".partial";
  std::ofstream file(temporary, std::ios::binary);
  const std::uint64_t length = text.size();
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  for (const NamedTensor& entry : tensors) {
    const at::Tensor data = entry.tensor.detach().contiguous();
    file.write(reinterpret_cast<const char*>(data.const_data_ptr<float>()),
               static_cast<std::streamsize>(data.nbytes()));
  }
  file.close();
  if (!file) fail_run("cannot write {}", temporary);
  std::filesystem::rename(temporary, path);
}

namespace {

bool all_natural(const Json& entry, const char* key) {
  return entry.contains(key) && entry[key].is_array() &&
         std::all_of(entry[key].begin(), entry[key].end(),
                     [](const Json& n) { return n.is_number_unsigned(); });
}

// Of float32; nothing when it overflows.
std::optional<std::uint64_t> byte_count(const std::vector<std::int64_t>& shape) {
  std::uint64_t bytes = sizeof(float);
  for (std::int64_t extent : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) return std::nullopt;
  }
  return bytes;
}

bool describes_tensor(const Json& entry) {
  return entry.is_object() && entry.contains("dtype") && entry["dtype"].is_string() &&
         all_natural(entry, "shape") && all_natural(entry, "data_offsets") &&
         entry["data_offsets"].size() == 2;
}

}  // namespace

std::map<std::string, at::Tensor> load_safetensors(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file || !std::filesystem::is_regular_file(path))
    fail_input("'{}' cannot be read; give a run directory that training has finished", path);
  const std::uint64_t size = std::filesystem::file_size(path);
  std::uint64_t length = 0;
  file.read(reinterpret_cast<char*>(&length), sizeof length);
  if (!file || length > size - sizeof length)
    fail_input("'{}' is not a safetensors file: its header does not fit", path);
  std::string text(length, '\0');
  file.read(text.data(), static_cast<std::streamsize>(length));
  const Json header = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!header.is_object()) fail_input("'{}' is not a safetensors file: its header is not JSON", path);

  std::map<std::string, at::Tensor> tensors;
  const std::uint64_t data_begin = sizeof length + length;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    if (!describes_tensor(entry))
      fail_input("'{}' is damaged: its header says too little of '{}'", path, name);
    if (entry.value("dtype", "") != "F32")
      fail_input("'{}' holds '{}' as {}; only F32 is read", path, name, entry.value("dtype", "?"));
    const auto shape = entry.at("shape").get<std::vector<std::int64_t>>();
    const auto range = entry.at("data_offsets").get<std::vector<std::uint64_t>>();
    if (range[1] > size - data_begin || range[0] > range[1] || byte_count(shape) != range[1] - range[0]) {
      fail_input("'{}' is damaged: the data of '{}' does not fit its shape", path, name);
    }
    at::Tensor tensor = at::empty(shape, at::kFloat);
    file.seekg(static_cast<std::streamoff>(data_begin + range[0]));
    file.read(reinterpret_cast<char*>(tensor.mutable_data_ptr<float>()),
              static_cast<std::streamsize>(tensor.nbytes()));
    if (!file) fail_input("'{}' cannot be read to its end", path);
    tensors[name] = tensor;
  }
  return tensors;
}

}  // namespace twobw::checkpoint
