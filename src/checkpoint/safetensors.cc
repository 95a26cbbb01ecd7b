#include "checkpoint/safetensors.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/tensor_file.h"

namespace twobw::checkpoint {
namespace {

const char* type_name(at::ScalarType type) {
  TWOBW_ASSERT(type == at::kFloat || type == at::kBFloat16 || type == at::kHalf, "type {}",
               static_cast<int>(type));
  return type == at::kFloat ? "F32" : type == at::kBFloat16 ? "BF16" : "F16";
}

}  // namespace

void save_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                      at::ScalarType stored) {
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};
  std::uint64_t offset = 0;
  for (const NamedTensor& entry : tensors) {
    const std::uint64_t end =
        offset + static_cast<std::uint64_t>(entry.tensor.numel()) * c10::elementSize(stored);
    header[entry.name] = {
        {"dtype", type_name(stored)}, {"shape", entry.tensor.sizes().vec()}, {"data_offsets", {offset, end}}};
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
    TORCH_CHECK(entry.tensor.is_floating_point(), entry.name, " is not of floating point");
    const at::Tensor data = entry.tensor.detach().to(stored).contiguous();
    file.write(static_cast<const char*>(data.const_data_ptr()), static_cast<std::streamsize>(data.nbytes()));
  }
  file.close();
  if (!file) fail_run("cannot write {}", temporary);
  std::filesystem::rename(temporary, path);
}

std::map<std::string, at::Tensor> load_safetensors(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    fail_input("'{}' cannot be read; give a run directory that training has finished", path);
  const TensorFile file(path);
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, stored] : file.tensors()) {
    if (stored.dtype != "F32")
      fail_input("'{}' holds '{}' as {}; only F32 is read", path, name, stored.dtype);
    tensors[name] = file.view(name).clone();
  }
  return tensors;
}

}  // namespace twobw::checkpoint
