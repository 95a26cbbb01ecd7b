#include "engine/checkpoint/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/base/json.h"
#include "core/base/text_file.h"

namespace twobw::checkpoint {
namespace {

namespace fs = std::filesystem;

// F64 is only written.
constexpr std::pair<std::string_view, at::ScalarType> kTypes[] = {{"F32", at::kFloat},
                                                                  {"BF16", at::kBFloat16},
                                                                  {"F16", at::kHalf},
                                                                  {"I64", at::kLong},
                                                                  {"F64", at::kDouble}};

std::optional<at::ScalarType> readable_type(const StoredTensor& tensor) {
  for (const auto& [name, type] : kTypes) {
    if (name == tensor.dtype && type != at::kDouble) return type;
  }
  return std::nullopt;
}

std::string type_name(at::ScalarType type) {
  for (const auto& [name, known] : kTypes) {
    if (known == type) return std::string(name);
  }
  TWOBW_ASSERT(false, "tensors of type {} are not saved", static_cast<int>(type));
  return "";
}

at::ScalarType saved_type(const NamedTensor& entry, std::optional<at::ScalarType> stored) {
  return stored && entry.tensor.is_floating_point() ? *stored : entry.tensor.scalar_type();
}

std::uint64_t saved_bytes(const NamedTensor& entry, std::optional<at::ScalarType> stored) {
  return static_cast<std::uint64_t>(entry.tensor.numel()) * c10::elementSize(saved_type(entry, stored));
}

std::vector<std::vector<NamedTensor>> split_shards(const std::vector<NamedTensor>& tensors,
                                                   at::ScalarType stored, std::uint64_t limit) {
  std::vector<std::vector<NamedTensor>> shards(1);
  std::uint64_t filled = 0;
  for (const NamedTensor& entry : tensors) {
    const std::uint64_t bytes = saved_bytes(entry, stored);
    if (!shards.back().empty() && filled + bytes > limit) {
      shards.emplace_back();
      filled = 0;
    }
    shards.back().push_back(entry);
    filled += bytes;
  }
  return shards;
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

bool can_view(const StoredTensor& tensor) {
  return readable_type(tensor).has_value();
}

TensorFile::TensorFile(const std::string& path)
    : path_(path), file_(std::make_shared<const MappedFile>(path)) {
  if (!file_->problem().empty()) fail_input("'{}' cannot be read: {}", path, file_->problem());
  tensors_ = read_header(file_->bytes(), path);
}

at::Tensor TensorFile::view(const std::string& name) const {
  const StoredTensor& tensor = tensors_.at(name);
  const auto type = readable_type(tensor);
  if (!type) {
    fail_input("'{}' holds '{}' as {}; F32, BF16, F16 and I64 are read", path_, shown_name(name),
               tensor.dtype);
  }
  const at::TensorOptions options(*type);
  if (tensor.bytes() == 0) return at::empty(tensor.shape, options);
  auto* const data = const_cast<std::byte*>(file_->bytes().data()) + tensor.begin;
  const bool aligned = reinterpret_cast<std::uintptr_t>(data) % c10::elementSize(*type) == 0;
  if (aligned)
    return at::from_blob(
        data, tensor.shape, [file = file_](void*) {}, options);
  at::Tensor copy = at::empty(tensor.shape, options);
  std::memcpy(copy.mutable_data_ptr(), data, tensor.bytes());
  return copy;
}

TensorFolder::TensorFolder(std::string folder) : folder_(std::move(folder)) {
  constexpr std::uintmax_t kLargestIndex = 100'000'000;  // bytes
  const std::string single = folder_ + "/model.safetensors", path = single + ".index.json";
  std::error_code error;
  if (fs::exists(single, error)) {
    const TensorFile& file = files_.try_emplace("model.safetensors", single).first->second;
    for (const auto& [name, tensor] : file.tensors()) file_of_[name] = &file;
    return;
  }
  if (!fs::exists(path, error)) refuse_folder(folder_);
  const auto index = parse_index(read_model_text("index", path, kLargestIndex), path);
  std::map<std::string, std::set<std::string>> held;
  for (const auto& [name, file] : index) {
    const auto [opened, is_new] = files_.try_emplace(file, folder_ + "/" + file);
    file_of_[name] = &opened->second;
    if (!is_new) continue;
    for (const auto& [tensor, stored] : opened->second.tensors()) held[file].insert(tensor);
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

void save_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                      std::optional<at::ScalarType> stored) {
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};
  std::uint64_t offset = 0;
  for (const NamedTensor& entry : tensors) {
    const std::uint64_t end = offset + saved_bytes(entry, stored);
    header[entry.name] = {{"dtype", type_name(saved_type(entry, stored))},
                          {"shape", entry.tensor.sizes().vec()},
                          {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // aligns the data to eight bytes

  Replacement file(path);
  const std::uint64_t length = text.size();
  file.append(std::as_bytes(std::span(&length, 1)));
  file.append(text);
  for (const NamedTensor& entry : tensors) {
    const at::Tensor data = entry.tensor.detach().to(saved_type(entry, stored)).contiguous();
    file.append({static_cast<const std::byte*>(data.const_data_ptr()), data.nbytes()});
  }
  file.replace();
}

void save_sharded(const std::string& folder, const std::vector<NamedTensor>& tensors, at::ScalarType stored,
                  std::uint64_t limit) {
  const auto shards = split_shards(tensors, stored, limit);
  if (shards.size() == 1) return save_safetensors(folder + "/model.safetensors", tensors, stored);
  std::uint64_t total = 0;
  nlohmann::json files;  // sorted by name
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string file = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    save_safetensors(folder + "/" + file, shards[i], stored);
    for (const NamedTensor& entry : shards[i]) {
      files[entry.name] = file;
      total += saved_bytes(entry, stored);
    }
  }
  nlohmann::ordered_json index;
  index["metadata"] = {{"total_size", total}};
  index["weight_map"] = nlohmann::ordered_json(files);
  replace_text(folder + "/model.safetensors.index.json", index.dump(2) + "\n");
}

void write_model(const std::string& folder, const std::vector<NamedTensor>& tensors, const ModelFiles& files,
                 at::ScalarType stored, std::uint64_t limit) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail_run("'{}' cannot be made: {}", folder, error.message());
  save_sharded(folder, tensors, stored, limit);
  for (const auto& [name, text] : files) {
    write_text(folder + "/" + name, text);
    sync_file(folder + "/" + name);
  }
  sync_folder(folder);
}

}  // namespace twobw::checkpoint
