// A model of Hugging Face's transformers as our configuration, and the other way round: GPT2... is the family
// gpt; Llama..., Qwen2... and Qwen3... are llama; Bert... is bert. Their ...ForSequenceClassification have
// the head classification or regression, the others that of the family's language model.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "planning/architecture/huggingface/config_file.h"

namespace twobw::architecture::huggingface {

// What config.json in given.from describes, with the head that `given` asks for; auto: its own. Throws
// InputError for what is not computed here, naming the key.
ImportedModel read_model(const ModelConfig& given);
ImportedModel read_model(const std::string& folder);  // with its own head
// The same of a config.json that is open.
ImportedModel read_model(const ConfigFile& file, ModelHead head);

// Whether config.json in `folder` says that the model has the head of `config`, so that none of its weights
// may be missing.
bool promises_head(const std::string& folder, const ModelConfig& config);

// What config.json in `folder` says of weights that are made new: their standard deviation. Throws
// InputError.
double initializer_range(const std::string& folder);

// load_config, with the keys of model.from where it names a folder. A run that is resumed has a copy of its
// config.json, so that the folder may be gone.
Config load_run_config(const std::string& path, const std::vector<std::string>& overrides);

// Whether transformers has such a model: not of other families, nor with both qkv_bias and qk_norm.
bool has_model(const ModelConfig& config);

// Ids of special tokens, where the tokenizer has them.
struct TokenIds {
  std::optional<int> bos, eos, pad;
};

// config.json of a model; `dtype` of its tensors: float32, bfloat16 or float16; `classes`: names of the
// labels, where they are known. Throws InputError for a model that transformers does not have.
nlohmann::json config_json(const ModelConfig& config, const std::string& dtype, const TokenIds& ids,
                           const std::vector<std::string>& classes = {});

// The same for a model that was trained on from `source`, its former config.json: whatever that says is kept,
// but for the head, where it is another. Throws InputError where it is not JSON.
nlohmann::json config_json_from(const std::string& source, const ModelConfig& config,
                                const std::string& dtype, const TokenIds& ids,
                                const std::vector<std::string>& classes = {});

// The same model with tensors of another type.
nlohmann::json with_dtype(const std::string& source, const std::string& dtype);

}  // namespace twobw::architecture::huggingface
