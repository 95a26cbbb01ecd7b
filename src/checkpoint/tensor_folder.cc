#include "checkpoint/tensor_folder.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text_file.h"
#include "base/untrusted_json.h"

namespace twobw::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepestIndex = 8;
constexpr std::uintmax_t kLargestIndex = 100'000'000;  // bytes

// By the names of the tensors.
std::map<std::string, std::string> read_index(const std::string& path) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  if (!error && size > kLargestIndex)
    fail_input("'{}' has {} bytes; an index has at most {}", path, size, kLargestIndex);
  const UntrustedJson index = parse_untrusted(read_text("index", path), kDeepestIndex);
  if (!index.problem.empty()) fail_input("'{}' {}", path, index.problem);
  const auto map = index.value.is_object() ? index.value.find("weight_map") : index.value.end();
  if (map == index.value.end() || !map->is_object() || map->empty())
    fail_input("'{}' has no weight_map; it must say which file holds which tensor", path);
  std::map<std::string, std::string> files;
  for (const auto& [name, file] : map->items()) {
    if (!file.is_string()) fail_input("'{}' names no file for '{}'", path, shown_name(name));
    files[name] = file.get<std::string>();
  }
  return files;
}

// A file of the folder itself.
bool is_plain_name(const std::string& name) {
  return fs::path(name).filename() == name && name.ends_with(".safetensors");
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
    fail_input("'{}' holds no weights: it must have model.safetensors or model.safetensors.index.json",
               folder_);
  }
}

void TensorFolder::open_sharded(const std::string& index) {
  std::map<std::string, const TensorFile*> opened;
  for (const auto& [name, file] : read_index(index)) {
    const TensorFile*& found = opened[file];
    if (found == nullptr) {
      if (!is_plain_name(file))
        fail_input("'{}' names the file '{}'; it must be a .safetensors file of the same folder", index,
                   shown_name(file));
      files_.push_back(std::make_unique<TensorFile>(folder_ + "/" + file));
      found = files_.back().get();
    }
    if (!found->tensors().contains(name))
      fail_input("'{}' says that '{}' holds '{}', which it does not", index, file, shown_name(name));
    file_of_[name] = found;
  }
  for (const auto& file : files_) {
    for (const auto& [name, tensor] : file->tensors()) {
      const auto listed = file_of_.find(name);
      if (listed == file_of_.end())
        fail_input("'{}' does not list '{}', which '{}' holds", index, shown_name(name), file->path());
      if (listed->second != file.get())
        fail_input("'{}' is in '{}' and in '{}'; it must be in one file", shown_name(name),
                   listed->second->path(), file->path());
    }
  }
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
