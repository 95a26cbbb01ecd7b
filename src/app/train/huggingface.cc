#include "app/train/huggingface.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/text_file.h"
#include "engine/checkpoint/safetensors.h"
#include "planning/architecture/huggingface/model_config.h"
#include "planning/architecture/huggingface/names.h"

namespace twobw::train {
namespace fs = std::filesystem;
namespace {

using checkpoint::NamedTensor;
using checkpoint::TensorFolder;

struct ExportType {
  std::string name;
  std::string theirs;
  at::ScalarType type;
};

const std::vector<ExportType>& export_types() {
  static const std::vector<ExportType> all = {
      {"fp32", "float32", at::kFloat}, {"bf16", "bfloat16", at::kBFloat16}, {"fp16", "float16", at::kHalf}};
  return all;
}

const ExportType& find_export_type(const std::string& name) {
  for (const ExportType& type : export_types()) {
    if (type.name == name) return type;
  }
  fail_input("--dtype is '{}'; it must be one of fp32, bf16, fp16", name);
}

void check_range(const at::Tensor& tensor, const std::string& name, at::ScalarType type) {
  constexpr double kMostHalf = 65504;
  if (type != at::kHalf || !tensor.is_floating_point() || tensor.numel() == 0) return;
  const double most = tensor.abs().max().item<double>();
  if (!std::isfinite(most)) {
    fail_input("'{}' holds numbers that are not finite, and fp16 ends at {}; --dtype must be fp32 or bf16",
               name, kMostHalf);
  }
  if (most > kMostHalf)
    fail_input("'{}' holds {}, and fp16 ends at {}; --dtype must be fp32 or bf16", name, most, kMostHalf);
}

// Whether the tensor is a buffer, which a model may have in addition to its weights.
bool is_buffer(const TensorFolder& folder, const std::string& name) {
  namespace huggingface = architecture::huggingface;
  return huggingface::is_spare(huggingface::read_model(folder.path()).model, name);
}

// Views of the files. Appends to `left_out` the buffers whose type cannot be written.
std::vector<NamedTensor> tensors_of(const TensorFolder& folder, at::ScalarType type,
                                    std::vector<std::string>& left_out) {
  std::vector<NamedTensor> tensors;
  for (const std::string& name : folder.names()) {
    if (!checkpoint::can_view(*folder.find(name)) && is_buffer(folder, name)) {
      left_out.push_back(name);
      continue;
    }
    tensors.push_back({name, folder.view(name)});
    check_range(tensors.back().tensor, name, type);
  }
  return tensors;
}

constexpr const char* kTemplates = "additional_chat_templates";

// Whether a file has weights in another format: pytorch_model.bin and its index, for instance.
bool are_other_weights(const std::string& name) {
  constexpr std::array<const char*, 10> kEnds = {".bin", ".h5", ".msgpack", ".onnx", ".onnx_data",
                                                 ".ot",  ".pt", ".pth",     ".ckpt", ".gguf"};
  const std::string of = name.ends_with(".index.json") ? name.substr(0, name.size() - 11) : name;
  return std::ranges::any_of(kEnds, [&](const char* end) { return of.ends_with(end); });
}

struct FilesBeside {
  std::vector<std::string> names, left_out;  // neither has config.json, the weights or their index
};

FilesBeside files_beside(const std::string& folder) {
  FilesBeside files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name == "config.json" || name.find(".safetensors") != std::string::npos) continue;
    std::error_code unreadable;
    const bool is_file = entry.is_regular_file(unreadable);
    const bool is_kept = is_file ? !are_other_weights(name) : name == kTemplates;
    (is_kept ? files.names : files.left_out).push_back(name);
  }
  std::ranges::sort(files.names);
  std::ranges::sort(files.left_out);
  return files;
}

void copy_beside(const std::string& from, const std::string& to, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    std::error_code error;
    fs::copy(from + "/" + name, to + "/" + name, fs::copy_options::recursive, error);
    if (error) fail_input("'{}/{}' cannot be copied: {}", from, shown_name(name), error.message());
  }
}

void make_empty_folder(const std::string& folder) {
  std::error_code error;
  if (fs::exists(folder, error) && !fs::is_directory(folder, error))
    fail_input("'{}' is a file; give a new folder to export to", folder);
  fs::create_directories(folder, error);
  if (error) fail_input("the folder '{}' cannot be made: {}", folder, error.message());
  if (!fs::is_empty(folder)) fail_input("'{}' is not empty; give a new folder to export to", folder);
}

}  // namespace

const std::vector<std::string>& export_dtypes() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const ExportType& type : export_types()) all.push_back(type.name);
    return all;
  }();
  return names;
}

Exported export_model(const Export& request) {
  const ExportType& type = find_export_type(request.dtype);
  Exported exported{.from = checkpoint::newest_model(request.from)};
  const std::string& from = exported.from.folder;
  std::error_code unreadable;
  if (!fs::is_regular_file(from + "/config.json", unreadable)) {
    fail_input("'{}' has no model that transformers knows: '{}/config.json' cannot be read", request.from,
               from);
  }
  const TensorFolder source(from);
  const std::vector<NamedTensor> tensors = tensors_of(source, type.type, exported.left_out);
  const FilesBeside files = files_beside(from);
  const std::string config = read_model_text("model configuration", from + "/config.json", kLargestConfig);
  make_empty_folder(request.folder);
  checkpoint::write_model(
      request.folder, tensors,
      {{"config.json", architecture::huggingface::with_dtype(config, type.theirs).dump(2) + "\n"}}, type.type,
      request.shard_bytes);
  copy_beside(from, request.folder, files.names);
  exported.files_left_out = files.left_out;
  return exported;
}

}  // namespace twobw::train
