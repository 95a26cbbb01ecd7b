#include "app/train/model_files.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/train/tokenizer_files.h"
#include "core/base/text_file.h"
#include "planning/architecture/families.h"
#include "planning/architecture/huggingface/model_config.h"
#include "text/tokenizer/load.h"

namespace twobw::train {
namespace {

namespace huggingface = architecture::huggingface;

constexpr const char* kType = "float32";

// What is there and cannot be looked at is refused where it is read.
bool is_there(const std::string& path) {
  std::error_code unreadable;
  return std::filesystem::status(path, unreadable).type() != std::filesystem::file_type::not_found;
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

// AutoTokenizer takes the class of a model's type, which splits in a way of its own whatever tokenizer.json
// says. These two take it as it is. Of byte-level BPE that matters for Qwen 2 and 3, of which transformers 5
// heeds for qwen2 only the first; BPE of characters is of Llama's own type, and for qwen2 no class helps it.
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

}  // namespace

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

}  // namespace twobw::train
