// Small models of every family that generates, with weights that reveal errors.
#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "app/inference/decoder.h"
#include "core/base/random.h"
#include "engine/models/model.h"

namespace twobw::inference::made_up {

inline constexpr int kVocab = 61, kContext = 24;

// Heads of odd numbers and sizes; keys and values of fewer heads; scaled angles; both ends tied or not.
inline std::vector<std::pair<std::string, ModelConfig>> small_models() {
  ModelConfig gpt{
      .family = "gpt", .layers = 2, .width = 30, .heads = 3, .vocab = kVocab, .context = kContext};
  ModelConfig llama{.family = "llama",
                    .layers = 2,
                    .width = 36,
                    .heads = 6,
                    .vocab = kVocab,
                    .context = kContext,
                    .tied = false};
  llama.kv_heads = 2;
  llama.hidden = 50;
  ModelConfig scaled = llama;
  scaled.tied = true;
  scaled.heads = 5;
  scaled.kv_heads = 5;
  scaled.head_size = 8;
  scaled.rope_scaling = "llama3";
  scaled.rope_factor = 8;
  scaled.rope_original_context = 8;
  ModelConfig qwen2 = llama, qwen3 = llama;
  qwen2.qkv_bias = true;
  qwen3.qk_norm = true;
  return {{"gpt", gpt}, {"llama", llama}, {"llama3", scaled}, {"qwen2", qwen2}, {"qwen3", qwen3}};
}

// Parameters of layers [first, last), seeded by name: the same for any split of the model.
inline std::vector<at::Tensor> random_parameters(const models::Model& model, int first, int last) {
  std::map<std::string, at::Tensor> known;
  std::vector<at::Tensor> parameters;
  for (int layer = first; layer < last; ++layer) {
    for (const architecture::Parameter& spec : model.layers[layer].parameters) {
      at::Tensor& tensor = known[spec.group_name()];
      if (!tensor.defined()) {
        auto generator = at::detail::createCPUGenerator(hash_text(spec.group_name()));
        tensor = at::empty(spec.shape, at::kFloat).normal_(spec.init_mean, 0.2, generator);
      }
      parameters.push_back(tensor);
    }
  }
  return parameters;
}

inline Stage whole_model(const models::Model& model) {
  return {.last_layer = model.size(), .parameters = random_parameters(model, 0, model.size())};
}

inline std::vector<std::int64_t> made_up_tokens(std::int64_t count, std::uint64_t seed) {
  std::vector<std::int64_t> tokens;
  for (std::int64_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<std::int64_t>(random_key(seed, i) % kVocab));
  return tokens;
}

}  // namespace twobw::inference::made_up
