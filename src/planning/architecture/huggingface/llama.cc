// Llama, Qwen2 and Qwen3: ...ForCausalLM and ...ForSequenceClassification.
#include "planning/architecture/llama.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "planning/architecture/huggingface/kinds.h"

namespace twobw::architecture::huggingface {
namespace {

constexpr int kQwen3Head = 128;  // where config.json leaves it out

// Attention within a window of tokens. Without layer_types the layers from max_window_layers on have it.
void refuse_windows(const ConfigFile& file, int layers) {
  constexpr double kUsualLayers = 28;
  for (const std::string& type : file.words("layer_types")) {
    if (type != "full_attention") file.refuse("layer_types", "be full_attention in every layer");
  }
  const bool has_window = file.flag("use_sliding_window", false) && !file.is_null("sliding_window");
  const double full = file.number("max_window_layers", kUsualLayers);
  if (has_window && !file.has("layer_types") && full < layers) {
    file.refuse("use_sliding_window",
                fmt::format("be false where max_window_layers, {}, is less than num_hidden_layers, {}", full,
                            layers));
  }
}

// The rotary embedding turns pairs of numbers.
void check_head_size(const ConfigFile& file, const ModelConfig& config) {
  if (config.head_size % 2 == 0) return;
  if (file.has("head_dim")) file.refuse("head_dim", "be even, for the rotary embedding");
  file.refuse("hidden_size",
              fmt::format("make attention heads of even size, and that of each is {}", config.head_size));
}

void check_transformers_has_it(const ModelConfig& config) {
  if (config.qkv_bias && config.qk_norm)
    fail_input(
        "model.qkv_bias and model.qk_norm are both true, which no model of transformers has; one may be");
  if (llama_type(config) == "llama" && config.width % config.heads != 0)
    fail_input("model.width is {}; for transformers' LlamaConfig model.heads, which is {}, must divide it",
               config.width, config.heads);
}

}  // namespace

std::string llama_type(const ModelConfig& config) {
  return config.qk_norm ? "qwen3" : config.qkv_bias ? "qwen2" : "llama";
}

ModelConfig read_llama(const ConfigFile& file) {
  const std::string type = file.word("model_type", "llama");
  file.expect_word("hidden_act", {"silu", "swish"});
  file.expect("attention_bias", false);  // in o_proj too, where it is true
  file.expect("mlp_bias", false);
  file.expect("attention_dropout", 0.0);
  file.expect("is_causal", true);
  ModelConfig config;
  config.family = "llama";
  config.layers = file.whole("num_hidden_layers", kMostLayers);
  refuse_windows(file, config.layers);
  config.width = file.whole("hidden_size", kMostWidth);
  config.heads = file.whole("num_attention_heads", kMostHeads);
  config.vocab = file.whole("vocab_size", kMostVocab);
  config.context = file.whole("max_position_embeddings", kMostContext);
  config.tied = file.flag("tie_word_embeddings", false);
  config.kv_heads = file.whole("num_key_value_heads", kMostHeads, config.heads);
  file.expect_divides("num_key_value_heads", config.kv_heads, "num_attention_heads", config.heads);
  const int usual_head = type == "qwen3" ? kQwen3Head : std::max(config.width / config.heads, 1);
  config.head_size = file.whole("head_dim", kMostHeads, usual_head);
  check_head_size(file, config);
  config.hidden = file.whole("intermediate_size", kMostWidth);
  config.norm_eps = file.number("rms_norm_eps", 1e-6);
  config.qkv_bias = type == "qwen2";
  config.qk_norm = type == "qwen3";
  read_rope(file, config, config.context);
  return config;
}

nlohmann::json write_llama(const ModelConfig& config) {
  check_transformers_has_it(config);
  nlohmann::json json = {{"model_type", llama_type(config)},
                         {"vocab_size", config.vocab},
                         {"hidden_size", config.width},
                         {"intermediate_size", hidden_size(config)},
                         {"num_hidden_layers", config.layers},
                         {"num_attention_heads", config.heads},
                         {"num_key_value_heads", kv_heads(config)},
                         {"head_dim", head_size(config)},
                         {"hidden_act", "silu"},
                         {"max_position_embeddings", config.context},
                         {"rms_norm_eps", config.norm_eps},
                         {"attention_dropout", 0.0}};
  if (config.qkv_bias || config.qk_norm) json["use_sliding_window"] = false;
  if (!config.qkv_bias) json["attention_bias"] = false;
  if (!config.qkv_bias && !config.qk_norm) json["mlp_bias"] = false;
  write_rope(config, json);
  return json;
}

}  // namespace twobw::architecture::huggingface
