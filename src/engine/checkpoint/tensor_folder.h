// The tensors of a Hugging Face folder: model.safetensors, or the files that model.safetensors.index.json
// names.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/checkpoint/tensor_file.h"

namespace twobw::checkpoint {

class TensorFolder {
 public:
  // Throws InputError where there are no such files, or the index and the files do not agree.
  explicit TensorFolder(std::string folder);

  const std::string& path() const { return folder_; }
  std::vector<std::string> names() const;                   // in their order
  const StoredTensor* find(const std::string& name) const;  // null: there is none

  // As TensorFile::view.
  at::Tensor view(const std::string& name) const;

 private:
  void open_sharded(const std::string& path);

  std::string folder_;
  std::vector<std::unique_ptr<TensorFile>> files_;
  std::map<std::string, const TensorFile*> file_of_;
};

}  // namespace twobw::checkpoint
