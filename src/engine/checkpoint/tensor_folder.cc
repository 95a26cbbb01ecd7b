#include "engine/checkpoint/tensor_folder.h"

#include <filesystem>
#include <set>

#include "core/base/error.h"
#include "core/base/text_file.h"
#include "engine/checkpoint/safetensors_index.h"

namespace twobw::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kLargestIndex = 100'000'000;  // bytes

std::string read_index(const std::string& path) {
  return read_model_text("index", path, kLargestIndex);
}

[[noreturn]] void refuse_folder(const std::string& folder) {
  constexpr const char* kMust = "it must have model.safetensors or model.safetensors.index.json";
  for (const char* const pickled : {"pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    std::error_code error;
    if (fs::exists(folder + "/" + pickled, error))
      fail_input("'{}' holds its weights as {}, which is not read; {}", folder, pickled, kMust);
  }
  fail_input("'{}' holds no weights: {}", folder, kMust);
}

}  // namespace

TensorFolder::TensorFolder(std::string folder) : folder_(std::move(folder)) {
  const std::string single = folder_ + "/model.safetensors", index = single + ".index.json";
  std::error_code error;
  if (fs::exists(single, error)) {
    files_.push_back(std::make_unique<TensorFile>(single));
    for (const auto& [name, tensor] : files_.back()->tensors()) file_of_[name] = files_.back().get();
  } else if (fs::exists(index, error)) {
    open_sharded(index);
  } else {
    refuse_folder(folder_);
  }
}

void TensorFolder::open_sharded(const std::string& path) {
  const std::map<std::string, std::string> index = parse_index(read_index(path), path);
  std::map<std::string, const TensorFile*> opened;
  std::map<std::string, std::set<std::string>> held;
  for (const auto& [name, file] : index) {
    const TensorFile*& found = opened[file];
    if (found == nullptr) {
      found = files_.emplace_back(std::make_unique<TensorFile>(folder_ + "/" + file)).get();
      for (const auto& [tensor, stored] : found->tensors()) held[file].insert(tensor);
    }
    file_of_[name] = found;
  }
  check_index(index, held, path);
}

std::vector<std::string> TensorFolder::names() const {
  std::vector<std::string> all;
  for (const auto& [name, file] : file_of_) all.push_back(name);
  return all;
}

const StoredTensor* TensorFolder::find(const std::string& name) const {
  const auto found = file_of_.find(name);
  return found == file_of_.end() ? nullptr : &found->second->tensors().at(name);
}

at::Tensor TensorFolder::view(const std::string& name) const {
  return file_of_.at(name)->view(name);
}

}  // namespace twobw::checkpoint
