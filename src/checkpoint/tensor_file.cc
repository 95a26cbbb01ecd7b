#include "checkpoint/tensor_file.h"

#include <cstring>

#include "base/error.h"
#include "base/untrusted_json.h"

namespace twobw::checkpoint {
namespace {

at::ScalarType type_of(const StoredTensor& tensor, const std::string& name, const std::string& path) {
  if (tensor.dtype == "F32") return at::kFloat;
  if (tensor.dtype == "BF16") return at::kBFloat16;
  if (tensor.dtype == "F16") return at::kHalf;
  fail_input("'{}' holds '{}' as {}; F32, BF16 and F16 are read", path, shown_name(name), tensor.dtype);
}

}  // namespace

TensorFile::TensorFile(const std::string& path) : path_(path), file_(path) {
  if (!file_.problem().empty()) fail_input("'{}' cannot be read: {}", path, file_.problem());
  tensors_ = read_header(file_.bytes(), path);
}

at::Tensor TensorFile::view(const std::string& name) const {
  const StoredTensor& tensor = tensors_.at(name);
  const at::ScalarType type = type_of(tensor, name, path_);
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
