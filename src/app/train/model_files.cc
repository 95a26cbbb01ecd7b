#include "app/train/model_files.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <system_error>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/output_file.h"
#include "core/base/text_file.h"
#include "engine/checkpoint/pretrained.h"
#include "engine/weights/layout.h"
#include "planning/architecture/families.h"
#include "planning/architecture/huggingface/model_config.h"
#include "planning/architecture/huggingface/names.h"
#include "text/tokenizer/tokenizer.h"

namespace twobw::train {
namespace {

namespace fs = std::filesystem;
namespace huggingface = architecture::huggingface;

constexpr const char* kType = "float32";

// Also true for a file that cannot be read: reading it reports the reason.
bool is_there(const std::string& path) {
  std::error_code unreadable;
  return fs::status(path, unreadable).type() != fs::file_type::not_found;
}

huggingface::TokenIds ids_of(const std::string& path) {
  const tokenizer::SpecialIds ids = tokenizer::load_tokenizer(path)->special();
  return {.bos = ids.bos, .eos = ids.eos, .pad = ids.pad};
}

nlohmann::json config_of(const Config& config, const std::string& former) {
  const std::string& tokenizer = config.data.tokenizer;
  if (!is_there(former))
    return huggingface::config_json(config.model, kType, ids_of(tokenizer), config.data.classes);
  const std::string source = read_model_text("model configuration", former, kLargestConfig);
  return huggingface::config_json_from(source, config.model, kType, ids_of(tokenizer), config.data.classes);
}

nlohmann::json generation_config(const nlohmann::json& config) {
  nlohmann::json json = {{"_from_model_config", true}};
  for (const char* const key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    if (config.contains(key) && !config[key].is_null()) json[key] = config[key];
  }
  return json;
}

// The tokenizer class that makes transformers follow tokenizer.json; null: the default does. AutoTokenizer's
// default for a model type may split text in its own way. Byte-level BPE: Qwen 2 and 3 do, and for qwen2
// transformers 5 accepts only LlamaTokenizerFast. BPE of characters is Llama's own type; for qwen2 no class
// helps.
const char* class_for(const std::string& kind, const std::string& type) {
  if (kind.starts_with("BPE of characters"))
    return type == "llama" || type == "qwen2" ? nullptr : "PreTrainedTokenizerFast";
  if (!kind.starts_with("byte-level BPE") || kind.ends_with("Qwen 2 does")) return nullptr;
  if (type == "qwen2") return "LlamaTokenizerFast";
  return type == "qwen3" ? "PreTrainedTokenizerFast" : nullptr;
}

void name_class(const std::string& tokenizer, const std::string& type, checkpoint::ModelFiles& files) {
  if (!files.contains("tokenizer.json") || files.contains("tokenizer_config.json")) return;
  const auto opened = tokenizer::load_tokenizer(tokenizer);
  const char* const name = class_for(opened->describe(), type);
  if (name == nullptr) return;
  nlohmann::json json = {
      {"tokenizer_class", name}, {"add_bos_token", false}, {"bos_token", nullptr}, {"unk_token", nullptr}};
  if (const auto eos = opened->special().eos) json["eos_token"] = opened->token(*eos);
  files["tokenizer_config.json"] = json.dump(2) + "\n";
}

// Companion files of any tokenizer.
const std::vector<std::string> kBeside = {"tokenizer_config.json", "special_tokens_map.json",
                                          "added_tokens.json", "chat_template.jinja"};
const std::vector<std::string> kVocabularies = {"tokenizer.json", "vocab.json", "merges.txt", "vocab.txt",
                                                "tokenizer.model"};

std::string usual_name(const fs::path& file) {
  const std::string name = file.filename().string();
  if (std::ranges::find(kVocabularies, name) != kVocabularies.end()) return name;
  if (name.ends_with(".model")) return "tokenizer.model";
  return name.ends_with(".txt") ? "vocab.txt" : "tokenizer.json";
}

// Export

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

std::map<std::string, fs::path> tokenizer_files(const std::string& tokenizer) {
  std::map<std::string, fs::path> files;
  if (tokenizer == "bytes") return files;
  const fs::path given = tokenizer;
  std::error_code unreadable;
  const bool is_folder = fs::is_directory(given, unreadable);
  if (!is_folder && !is_file(given))
    fail_input("data.tokenizer is '{}', which is not there any more; it belongs to the model", tokenizer);
  const fs::path folder = is_folder ? given : given.parent_path();
  std::vector<std::string> names = kBeside;
  if (is_folder) names.insert(names.end(), kVocabularies.begin(), kVocabularies.end());
  if (given.filename() == "vocab.json") names.emplace_back("merges.txt");
  if (given.filename() == "tokenizer.json") names.emplace_back("tokenizer.model");
  for (const std::string& name : names) {
    if (is_file(folder / name)) files[name] = folder / name;
  }
  if (!is_folder) files[usual_name(given)] = given;
  return files;
}

checkpoint::ModelFiles model_files(const Config& config, const std::string& source) {
  checkpoint::ModelFiles files;
  for (const auto& [name, path] : tokenizer_files(config.data.tokenizer))
    files[name] = read_model_text("tokenizer", path.string(), kLargestTable);
  if (!huggingface::has_model(config.model)) return files;
  const nlohmann::json json = config_of(config, source + "/config.json");
  files["config.json"] = json.dump(2) + "\n";
  name_class(config.data.tokenizer, json.value("model_type", ""), files);
  if (architecture::head_of(config.model) != ModelHead::CausalLm) return files;
  const std::string generation = source + "/generation_config.json";
  files["generation_config.json"] =
      is_there(generation) ? read_model_text("generation configuration", generation, kLargestConfig)
                           : generation_config(json).dump(2) + "\n";
  return files;
}

void save_model(const StageWeights& weights_of, const runtime::Setup& setup,
                const checkpoint::ModelFiles& files, const std::string& folder) {
  std::vector<checkpoint::NamedTensor> tensors;
  const PipelineShape& shape = setup.spec.shape;
  for (int stage = 0; stage < shape.stages; ++stage) {
    const at::Tensor all = weights_of(stage);
    const weights::Layout layout(setup.model.layers, shape.first_layer(stage), shape.last_layer(stage));
    for (const weights::Parameter& parameter : layout.parameters()) {
      if (!parameter.spec.tied_to.empty()) continue;
      const at::Tensor ours = all.narrow(0, parameter.offset, parameter.count).view(parameter.spec.shape);
      const auto stored = checkpoint::to_stored(setup.config.model, parameter.spec, ours);
      tensors.insert(tensors.end(), stored.begin(), stored.end());
    }
  }
  const std::string temporary = folder + ".partial";
  std::error_code ignored;
  fs::remove_all(temporary, ignored);
  try {
    checkpoint::write_model(temporary, tensors, files);
    replace_folder(temporary, folder);
  } catch (...) {
    fs::remove_all(temporary, ignored);
    throw;
  }
}

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
  if (!is_file(from + "/config.json")) {
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
