#include "planning/architecture/family_parts.h"

#include <algorithm>

#include "core/base/error.h"
#include "planning/architecture/families.h"

namespace twobw::architecture {

void refuse_foreign_keys(const ModelConfig& config, std::initializer_list<std::string_view> own) {
  const ModelConfig plain;
  const auto expect = [&](std::string_view key, const auto& value, const auto& only) {
    if (value == only || std::ranges::find(own, key) != own.end()) return;
    fail_input("model.{} is {}; it must be {} where model.family is {}", key, value, only, config.family);
  };
  expect("max_positions", config.max_positions, plain.max_positions);
  expect("kv_heads", config.kv_heads, plain.kv_heads);
  expect("head_size", config.head_size, plain.head_size);
  expect("hidden", config.hidden, plain.hidden);
  expect("norm_eps", config.norm_eps, plain.norm_eps);
  expect("token_types", config.token_types, plain.token_types);
  expect("next_sentence", config.next_sentence, plain.next_sentence);
  expect("padding", config.padding, plain.padding);
  expect("reset_documents", config.reset_documents, plain.reset_documents);
  expect("qkv_bias", config.qkv_bias, plain.qkv_bias);
  expect("qk_norm", config.qk_norm, plain.qk_norm);
  expect("rope_theta", config.rope_theta, plain.rope_theta);
  expect("rope_scaling", config.rope_scaling, plain.rope_scaling);
}

void check_head(const ModelConfig& config, ModelHead language) {
  const ModelHead head = config.head;
  if (head == ModelHead::Auto || head == language || is_sequence_head(head)) return;
  fail_input("model.head is {}; where model.family is {} it must be {}, classification or regression",
             name(head), config.family, name(language));
}

void check_documents(const ModelConfig& config) {
  if (!config.reset_documents) return;
  if (is_sequence_head(config.head)) {
    fail_input(
        "model.reset_documents is true; it must be false where model.head is {}, as a sequence is one "
        "document",
        name(config.head));
  }
  // The angles would differ between documents.
  if (config.rope_scaling == "dynamic")
    fail_input("model.reset_documents is true; it must be false where model.rope_scaling is dynamic");
}

}  // namespace twobw::architecture
