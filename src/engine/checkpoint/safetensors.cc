#include "engine/checkpoint/safetensors.h"

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "core/base/error.h"
#include "core/base/output_file.h"
#include "engine/checkpoint/tensor_file.h"

namespace twobw::checkpoint {
namespace {

const char* type_name(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return "F32";
    case at::kBFloat16:
      return "BF16";
    case at::kHalf:
      return "F16";
    case at::kDouble:
      return "F64";
    case at::kLong:
      return "I64";
    default:
      TWOBW_ASSERT(false, "tensors of type {} are not saved", static_cast<int>(type));
      return "";
  }
}

// `type_of` says in which type a tensor is stored.
template <typename TypeOf>
void save_tensors(const std::string& path, const std::vector<NamedTensor>& tensors, TypeOf type_of) {
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};
  std::uint64_t offset = 0;
  for (const NamedTensor& entry : tensors) {
    const at::ScalarType type = type_of(entry);
    const std::uint64_t end =
        offset + static_cast<std::uint64_t>(entry.tensor.numel()) * c10::elementSize(type);
    header[entry.name] = {
        {"dtype", type_name(type)}, {"shape", entry.tensor.sizes().vec()}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // data starts on eight bytes

  Replacement file(path);
  const std::uint64_t length = text.size();
  file.append(std::as_bytes(std::span(&length, 1)));
  file.append(text);
  for (const NamedTensor& entry : tensors) {
    const at::Tensor data = entry.tensor.detach().to(type_of(entry)).contiguous();
    file.append({static_cast<const std::byte*>(data.const_data_ptr()), data.nbytes()});
  }
  file.replace();
}

}  // namespace

void save_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                      at::ScalarType stored) {
  save_tensors(path, tensors, [&](const NamedTensor& entry) {
    TORCH_CHECK(entry.tensor.is_floating_point(), entry.name, " is not of floating point");
    return stored;
  });
}

void save_as_they_are(const std::string& path, const std::vector<NamedTensor>& tensors) {
  save_tensors(path, tensors, [](const NamedTensor& entry) { return entry.tensor.scalar_type(); });
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
