// Models as transformers' config.json has them, and what is read of such a file or refused.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/base/error.h"
#include "planning/architecture/huggingface/model_config.h"

namespace twobw::architecture::huggingface {

using Json = nlohmann::ordered_json;

// As save_pretrained writes them, less what is not read.
inline Json gpt2() {
  return {{"model_type", "gpt2"}, {"n_layer", 2},      {"n_embd", 12},       {"n_head", 3},
          {"vocab_size", 61},     {"n_positions", 16}, {"n_inner", nullptr}, {"resid_pdrop", 0.1},
          {"embd_pdrop", 0.1},    {"attn_pdrop", 0.1}};
}

inline Json llama() {
  return {{"model_type", "llama"},    {"num_hidden_layers", 2},        {"hidden_size", 24},
          {"num_attention_heads", 4}, {"num_key_value_heads", 2},      {"intermediate_size", 40},
          {"vocab_size", 61},         {"max_position_embeddings", 64}, {"rms_norm_eps", 1e-5},
          {"rope_theta", 500000.0}};
}

inline Json bert() {
  return {{"model_type", "bert"},
          {"num_hidden_layers", 2},
          {"hidden_size", 12},
          {"num_attention_heads", 3},
          {"intermediate_size", 20},
          {"vocab_size", 61},
          {"max_position_embeddings", 16},
          {"type_vocab_size", 3},
          {"hidden_dropout_prob", 0.2},
          {"attention_probs_dropout_prob", 0.2}};
}

inline Json changed(Json json, const std::string& key, const Json& value) {
  json[key] = value;
  return json;
}

inline Json with_architecture(const Json& json, const char* name) {
  return changed(json, "architectures", Json::array({name}));
}

// A name for each.
inline Json labels(int count) {
  Json names = Json::object();
  for (int i = 0; i < count; ++i) names[std::to_string(i)] = "label " + std::to_string(i);
  return names;
}

class HuggingFaceConfig : public testing::Test {
 protected:
  HuggingFaceConfig() : folder_(testing::TempDir() + "twobw_huggingface_test_" + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~HuggingFaceConfig() override { std::filesystem::remove_all(folder_); }

  ModelConfig read(const Json& json) const { return read_text(json.dump()); }
  ModelConfig read_text(const std::string& text) const {
    std::ofstream(folder_ + "/config.json") << text;
    return read_model(folder_).model;
  }
  std::string refusal(const std::string& text) const {
    try {
      read_text(text);
    } catch (const InputError& error) {
      return error.what();
    }
    return "not refused";
  }
  std::string refusal(const Json& json) const { return refusal(json.dump()); }

  std::string folder_;
};

}  // namespace twobw::architecture::huggingface
