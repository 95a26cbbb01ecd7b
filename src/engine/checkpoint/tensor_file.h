// A safetensors file as memory: opening it reads the header alone, and a tensor's pages are read when it is
// used.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <string>

#include "core/base/mapped_file.h"
#include "engine/checkpoint/safetensors_header.h"

namespace twobw::checkpoint {

// Whether TensorFile::view knows its type: F32, BF16, F16 or I64.
bool can_view(const StoredTensor& tensor);

class TensorFile {
 public:
  // Throws InputError where it cannot be read or is not in the format.
  explicit TensorFile(const std::string& path);

  const std::string& path() const { return path_; }
  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }

  // A view of the file, in its number format; to be read only, and only while this object lives. Throws
  // InputError unless can_view(). The name must be there.
  at::Tensor view(const std::string& name) const;

 private:
  std::string path_;
  MappedFile file_;
  std::map<std::string, StoredTensor> tensors_;
};

}  // namespace twobw::checkpoint
