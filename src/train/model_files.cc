#include "train/model_files.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "architecture/heads.h"
#include "architecture/huggingface/model_config.h"
#include "base/text_file.h"
#include "tokenizer/load.h"
#include "train/tokenizer_files.h"

namespace twobw::train {
namespace {

namespace huggingface = architecture::huggingface;

constexpr const char* kType = "float32";

huggingface::TokenIds ids_of(const std::string& path) {
  const tokenizer::SpecialIds ids = tokenizer::load_tokenizer(path)->special();
  return {.bos = ids.bos, .eos = ids.eos, .pad = ids.pad};
}

nlohmann::json config_of(const Config& config, const std::string& former) {
  const std::string& tokenizer = config.data.tokenizer;
  if (!std::filesystem::exists(former))
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

}  // namespace

checkpoint::ModelFiles model_files(const Config& config, const std::string& source) {
  checkpoint::ModelFiles files;
  for (const auto& [name, path] : tokenizer_files(config.data.tokenizer))
    files[name] = read_model_text("tokenizer", path.string(), kLargestTable);
  if (!huggingface::has_model(config.model)) return files;
  const nlohmann::json json = config_of(config, source + "/config.json");
  files["config.json"] = json.dump(2) + "\n";
  if (architecture::head_of(config.model) != ModelHead::CausalLm) return files;
  const std::string generation = source + "/generation_config.json";
  files["generation_config.json"] =
      std::filesystem::exists(generation)
          ? read_model_text("generation configuration", generation, kLargestConfig)
          : generation_config(json).dump(2) + "\n";
  return files;
}

}  // namespace twobw::train
