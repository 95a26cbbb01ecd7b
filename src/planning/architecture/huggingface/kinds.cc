#include "planning/architecture/huggingface/config_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/base/config_values.h"
#include "core/base/error.h"
#include "planning/architecture/families.h"
#include "planning/architecture/llama.h"

namespace twobw::architecture::huggingface {
namespace {

constexpr double kLayerNormEps = 1e-5;  // of the family gpt

// Checks the second name of a size in transformers.
void check_alias(const ConfigFile& file, const char* alias, const char* key, int size) {
  if (file.has(alias) && file.number(alias) != size)
    file.refuse(alias, fmt::format("be {}, which is {}, or be left out", key, size));
}

constexpr int kQwen3Head = 128;  // default of transformers

// Refuses sliding-window attention. Without layer_types it applies to layers from max_window_layers on.
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

// The rotary embedding needs pairs.
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

const char* problem_of(std::int64_t labels) {
  return labels == 1 ? "regression" : "single_label_classification";
}

int read_label_count(const ConfigFile& file) {
  const std::optional<ConfigFile> names = file.part("id2label");
  if (!names) return file.whole("num_labels", kMostLabels, 2);  // default of transformers
  if (names->size() == 0 || std::cmp_greater(names->size(), kMostLabels))
    file.refuse("id2label", fmt::format("name from 1 to {} labels", kMostLabels));
  const int count = static_cast<int>(names->size());
  if (file.whole("num_labels", kMostLabels, count) != count)
    file.refuse("num_labels", fmt::format("be {}, as many as id2label names", count));
  return count;
}

constexpr double kUsualTheta = 10000;
constexpr const char* kOriginalContext = "original_max_position_embeddings";

void read_scaling(const ConfigFile& file, const ConfigFile& rope, const std::string& spelling,
                  ModelConfig& config, int most_positions) {
  config.rope_scaling = rope.word(spelling, "");
  config.rope_factor = rope.number("factor");
  if (config.rope_scaling == "linear") return;
  // Dynamic scaling begins beyond the positions.
  config.rope_original_context = most_positions;
  if (config.rope_scaling == "dynamic") return;
  config.rope_low_freq_factor = rope.number("low_freq_factor");
  config.rope_high_freq_factor = rope.number("high_freq_factor");
  // The key outside of the rotary embedding takes precedence, as in transformers.
  const ConfigFile& place = file.has(kOriginalContext) ? file : rope;
  config.rope_original_context = place.whole(kOriginalContext, kMostContext, most_positions);
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
  config.context = config.max_positions = file.whole("n_positions", kMostContext);
  check_alias(file, "num_hidden_layers", "n_layer", config.layers);
  check_alias(file, "hidden_size", "n_embd", config.width);
  check_alias(file, "num_attention_heads", "n_head", config.heads);
  check_alias(file, "max_position_embeddings", "n_positions", config.max_positions);
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

std::string llama_type(const ModelConfig& config) {
  return config.qk_norm ? "qwen3" : config.qkv_bias ? "qwen2" : "llama";
}

ModelConfig read_llama(const ConfigFile& file) {
  const std::string type = file.word("model_type", "llama");
  file.expect_word("hidden_act", {"silu", "swish"});
  file.expect("attention_bias", false);  // also of o_proj
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

ModelConfig read_bert(const ConfigFile& file) {
  file.expect_word("hidden_act", {"gelu"});
  file.expect_word("position_embedding_type", {"absolute"});
  file.expect("is_decoder", false);
  file.expect("is_causal", false);
  file.expect("add_cross_attention", false);
  ModelConfig config;
  config.family = "bert";
  config.layers = file.whole("num_hidden_layers", kMostLayers);
  config.width = file.whole("hidden_size", kMostWidth);
  config.heads = file.whole("num_attention_heads", kMostHeads);
  file.expect_divides("num_attention_heads", config.heads, "hidden_size", config.width);
  config.vocab = file.whole("vocab_size", kMostVocab);
  config.context = config.max_positions = file.whole("max_position_embeddings", kMostContext);
  config.tied = file.flag("tie_word_embeddings", true);
  config.dropout = file.number("hidden_dropout_prob", kUsualDropout);
  config.hidden = file.whole("intermediate_size", kMostWidth);
  config.norm_eps = file.number("layer_norm_eps", 1e-12);
  config.token_types = file.whole("type_vocab_size", kMostVocab, 2);
  return config;
}

nlohmann::json write_bert(const ModelConfig& config) {
  return {{"model_type", "bert"},
          {"vocab_size", config.vocab},
          {"hidden_size", config.width},
          {"num_hidden_layers", config.layers},
          {"num_attention_heads", config.heads},
          {"intermediate_size", inner_size(config)},
          {"hidden_act", "gelu"},
          {"hidden_dropout_prob", config.dropout},
          {"attention_probs_dropout_prob", config.dropout},
          {"classifier_dropout", nullptr},
          {"max_position_embeddings", positions_of(config)},
          {"type_vocab_size", config.token_types},
          {"layer_norm_eps", config.norm_eps},
          {"position_embedding_type", "absolute"}};
}

void read_labels(const ConfigFile& file, ModelConfig& config) {
  const int labels = read_label_count(file);
  const std::string problem = problem_of(labels);
  if (file.word("problem_type", problem) != problem)
    file.refuse("problem_type", fmt::format("be {} where the number of labels is {}", problem, labels));
  config.head = labels == 1 ? ModelHead::Regression : ModelHead::Classification;
  if (labels > 1) config.num_labels = labels;
}

std::vector<std::string> label_names(const ConfigFile& file) {
  const std::optional<ConfigFile> part = file.part("id2label");
  if (!part) return {};
  std::vector<std::string> names;
  bool only_numbered = true;
  for (std::size_t label = 0; label < part->size(); ++label) {
    const std::string key = std::to_string(label);
    if (!part->has(key)) return {};
    names.push_back(part->word(key, ""));
    if (parse_number<std::int64_t>(names.back())) return {};
    only_numbered = only_numbered && names.back() == "LABEL_" + key;
  }
  const bool once = std::set<std::string>(names.begin(), names.end()).size() == names.size();
  return only_numbered || !once ? std::vector<std::string>() : names;
}

void write_labels(const ModelConfig& config, const std::vector<std::string>& classes, nlohmann::json& json) {
  const std::int64_t labels = outputs_of(config);
  const bool named = std::cmp_equal(classes.size(), labels);
  json["problem_type"] = problem_of(labels);
  const auto names = json.find("id2label");
  const bool has_names = names != json.end() && names->is_object() && std::cmp_equal(names->size(), labels);
  if (has_names && !named) return;
  json.erase("num_labels");
  nlohmann::json id_to_label, label_to_id;
  for (std::int64_t label = 0; label < labels; ++label) {
    const std::string name =
        named ? classes[static_cast<std::size_t>(label)] : fmt::format("LABEL_{}", label);
    id_to_label[std::to_string(label)] = name;
    label_to_id[name] = label;
  }
  json["id2label"] = std::move(id_to_label);
  json["label2id"] = std::move(label_to_id);
}

void read_rope(const ConfigFile& file, ModelConfig& config, int most_positions) {
  file.expect("partial_rotary_factor", 1.0);
  config.rope_theta = file.number("rope_theta", kUsualTheta);
  std::optional<ConfigFile> rope = file.part("rope_scaling");
  if (!rope || rope->size() == 0) rope = file.part("rope_parameters");
  if (!rope) return;
  rope->expect_none("full_attention", "all layers have one rotary embedding");
  rope->expect("partial_rotary_factor", 1.0);
  config.rope_theta = rope->number("rope_theta", config.rope_theta);
  const std::string spelling = rope->has("rope_type") ? "rope_type" : "type";
  rope->expect_word(spelling, {"default", "linear", "dynamic", "llama3"});
  if (rope->word(spelling, "default") != "default")
    read_scaling(file, *rope, spelling, config, most_positions);
}

void keep_original_context(const ModelConfig& config, nlohmann::json& json) {
  const auto has_context = [](const nlohmann::json& object) {
    return object.contains(kOriginalContext) && !object[kOriginalContext].is_null();
  };
  if (config.rope_scaling != "llama3" || has_context(json)) return;
  for (const char* const place : {"rope_scaling", "rope_parameters"}) {
    if (!json.contains(place) || !json[place].is_object() || json[place].empty()) continue;
    if (!has_context(json[place])) json[place][kOriginalContext] = config.rope_original_context;
    return;
  }
}

void write_rope(const ModelConfig& config, nlohmann::json& json) {
  json["rope_theta"] = config.rope_theta;
  json["rope_scaling"] = nullptr;
  if (config.rope_scaling == "none") return;
  // Both spellings, for old and new versions of transformers.
  nlohmann::json rope = {
      {"rope_type", config.rope_scaling}, {"type", config.rope_scaling}, {"factor", config.rope_factor}};
  if (config.rope_scaling == "dynamic") json["max_position_embeddings"] = config.rope_original_context;
  if (config.rope_scaling == "llama3") {
    rope["low_freq_factor"] = config.rope_low_freq_factor;
    rope["high_freq_factor"] = config.rope_high_freq_factor;
    rope["original_max_position_embeddings"] = config.rope_original_context;
  }
  json["rope_scaling"] = rope;
}

}  // namespace twobw::architecture::huggingface
