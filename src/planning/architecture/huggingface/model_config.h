// Models of Hugging Face's transformers: config.json to a configuration and back. GPT2... is the family gpt;
// Llama..., Qwen2... and Qwen3... are llama; Bert... is bert. ...ForSequenceClassification has a
// classification or regression head, the others have the language model head of the family.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "planning/architecture/huggingface/config_file.h"

namespace twobw::architecture::huggingface {

// Reads config.json in given.from, with the head of `given`; auto: the head of the file. Throws InputError
// for unsupported values, naming the key.
ImportedModel read_model(const ModelConfig& given);
ImportedModel read_model(const std::string& folder);  // head: auto
ImportedModel read_model(const ConfigFile& file, ModelHead head);

// True if config.json in `folder` promises the head of `config`, so that weights must not be missing.
bool promises_head(const std::string& folder, const ModelConfig& config);

// Standard deviation of newly initialized weights, from config.json in `folder`. Throws InputError.
double initializer_range(const std::string& folder);

// load_config() with the keys of model.from. A resumed run has a copy of config.json, so that the folder of
// model.from may be missing.
Config load_run_config(const std::string& path, const std::vector<std::string>& overrides);

// True if transformers has the model: a family of its own, without both qkv_bias and qk_norm.
bool has_model(const ModelConfig& config);

// Ids of special tokens, if the tokenizer has them.
struct TokenIds {
  std::optional<int> bos, eos, pad;
};

// config.json of a model. `dtype`: float32, bfloat16 or float16; `classes`: names of the labels, if known.
// Throws InputError for a model that transformers lacks.
nlohmann::json config_json(const ModelConfig& config, const std::string& dtype, const TokenIds& ids,
                           const std::vector<std::string>& classes = {});

// config.json of a model fine-tuned from `source`, its former config.json. Keeps all keys except those of the
// head, dropout and a longer context. Throws InputError if `source` is not JSON.
nlohmann::json config_json_from(const std::string& source, const ModelConfig& config,
                                const std::string& dtype, const TokenIds& ids,
                                const std::vector<std::string>& classes = {});

// Changes the type of the tensors.
nlohmann::json with_dtype(const std::string& source, const std::string& dtype);

}  // namespace twobw::architecture::huggingface
