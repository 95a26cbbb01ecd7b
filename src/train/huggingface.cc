#include "train/huggingface.h"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "architecture/huggingface/model_config.h"
#include "architecture/huggingface/names.h"
#include "base/error.h"
#include "base/text_file.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/tensor_folder.h"

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

// Of those that a model may have besides its weights.
bool is_buffer(const TensorFolder& folder, const std::string& name) {
  namespace huggingface = architecture::huggingface;
  return huggingface::is_spare(huggingface::read_model(folder.path()).model, name);
}

// Views of the files. Buffers that are no weights, of a type that is not written, are named in `left_out`.
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

// All that are neither weights nor their index.
checkpoint::ModelFiles files_beside(const std::string& folder) {
  checkpoint::ModelFiles files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_regular_file() && name.find(".safetensors") == std::string::npos)
      files[name] = read_text("model's file", entry.path().string());
  }
  return files;
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
  checkpoint::ModelFiles files = files_beside(from);
  std::string& config = files["config.json"];
  config = architecture::huggingface::with_dtype(config, type.theirs).dump(2) + "\n";
  make_empty_folder(request.folder);
  checkpoint::write_model(request.folder, tensors, files, type.type, request.shard_bytes);
  return exported;
}

}  // namespace twobw::train
