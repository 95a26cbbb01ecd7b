#include "engine/checkpoint/tensor_file.h"

#include <cstring>
#include <optional>

#include "core/base/error.h"
#include "core/base/json.h"

namespace twobw::checkpoint {
namespace {

std::optional<at::ScalarType> type_of(const StoredTensor& tensor) {
  if (tensor.dtype == "F32") return at::kFloat;
  if (tensor.dtype == "BF16") return at::kBFloat16;
  if (tensor.dtype == "F16") return at::kHalf;
  if (tensor.dtype == "I64") return at::kLong;
  return std::nullopt;
}

}  // namespace

bool can_view(const StoredTensor& tensor) {
  return type_of(tensor).has_value();
}

TensorFile::TensorFile(const std::string& path) : path_(path), file_(path) {
  if (!file_.problem().empty()) fail_input("'{}' cannot be read: {}", path, file_.problem());
  tensors_ = read_header(file_.bytes(), path);
}

at::Tensor TensorFile::view(const std::string& name) const {
  const StoredTensor& tensor = tensors_.at(name);
  if (!can_view(tensor)) {
    fail_input("'{}' holds '{}' as {}; F32, BF16, F16 and I64 are read", path_, shown_name(name),
               tensor.dtype);
  }
  const at::ScalarType type = *type_of(tensor);
  const at::TensorOptions options(type);
  if (tensor.bytes() == 0) return at::empty(tensor.shape, options);
  auto* const data = const_cast<std::byte*>(file_.bytes().data()) + tensor.begin;
  const bool aligned = reinterpret_cast<std::uintptr_t>(data) % c10::elementSize(type) == 0;
  if (aligned) return at::from_blob(data, tensor.shape, options);
  at::Tensor copy = at::empty(tensor.shape, options);
  std::memcpy(copy.mutable_data_ptr(), data, tensor.bytes());
  return copy;
}

}  // namespace twobw::checkpoint
