// GPT2LMHeadModel and GPT2ForSequenceClassification.
#include <fmt/format.h>

#include "planning/architecture/huggingface/kinds.h"
#include "planning/architecture/positions.h"

namespace twobw::architecture::huggingface {
namespace {

constexpr double kLayerNormEps = 1e-5;  // that a gpt computes with

// Sizes have a second name, which transformers takes as well.
void check_alias(const ConfigFile& file, const char* alias, const char* key, int size) {
  if (file.has(alias) && file.number(alias) != size)
    file.refuse(alias, fmt::format("be {}, which is {}, or be left out", key, size));
}

}  // namespace

ModelConfig read_gpt2(const ConfigFile& file) {
  file.expect_word("activation_function", {"gelu_new", "gelu_pytorch_tanh"});
  file.expect("layer_norm_epsilon", kLayerNormEps);
  file.expect("scale_attn_weights", true);
  file.expect("scale_attn_by_inverse_layer_idx", false);
  file.expect("reorder_and_upcast_attn", false);
  file.expect("add_cross_attention", false);
  file.expect("is_causal", true);
  ModelConfig config;
  config.family = "gpt";
  config.layers = file.whole("n_layer", kMostLayers);
  config.width = file.whole("n_embd", kMostWidth);
  config.heads = file.whole("n_head", kMostHeads);
  file.expect_divides("n_head", config.heads, "n_embd", config.width);
  config.vocab = file.whole("vocab_size", kMostVocab);
  config.context = config.positions = file.whole("n_positions", kMostContext);
  check_alias(file, "num_hidden_layers", "n_layer", config.layers);
  check_alias(file, "hidden_size", "n_embd", config.width);
  check_alias(file, "num_attention_heads", "n_head", config.heads);
  check_alias(file, "max_position_embeddings", "n_positions", config.positions);
  config.tied = file.flag("tie_word_embeddings", true);
  config.dropout = file.number("resid_pdrop", kUsualDropout);
  if (file.whole("n_inner", 4 * kMostWidth, 4 * config.width) != 4 * config.width)
    file.refuse("n_inner", fmt::format("be null or 4 n_embd, {}", 4 * config.width));
  return config;
}

nlohmann::json write_gpt2(const ModelConfig& config) {
  return {{"model_type", "gpt2"},
          {"vocab_size", config.vocab},
          {"n_positions", positions_of(config)},
          {"n_embd", config.width},
          {"n_layer", config.layers},
          {"n_head", config.heads},
          {"n_inner", nullptr},
          {"activation_function", "gelu_new"},
          {"resid_pdrop", config.dropout},
          {"embd_pdrop", config.dropout},
          {"attn_pdrop", config.dropout},
          {"layer_norm_epsilon", kLayerNormEps},
          {"scale_attn_weights", true},
          {"scale_attn_by_inverse_layer_idx", false},
          {"reorder_and_upcast_attn", false}};
}

}  // namespace twobw::architecture::huggingface
