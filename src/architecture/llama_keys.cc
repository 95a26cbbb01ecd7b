#include <string_view>

#include "architecture/llama.h"
#include "base/error.h"

namespace twobw::architecture {

void check_llama(const ModelConfig& config) {
  if (config.dropout > 0)
    fail_input("model.dropout is {}; it must be 0 where model.family is llama", config.dropout);
  const int head = head_size(config);
  if (head % 2 != 0) {
    fail_input("attention heads have size {} ({}); for the rotary embedding it must be even", head,
               config.head > 0 ? "model.head" : "model.width / model.heads");
  }
  if (config.rope_scaling == "dynamic" && head < 4)
    fail_input("attention heads have size {}; where model.rope_scaling is dynamic it must be at least 4",
               head);
}

void refuse_llama_keys(const ModelConfig& config) {
  const ModelConfig plain;
  const auto expect = [&](std::string_view key, const auto& value, const auto& only) {
    if (value != only)
      fail_input("model.{} is {}; it must be {} where model.family is {}", key, value, only, config.family);
  };
  expect("kv_heads", config.kv_heads, plain.kv_heads);
  expect("head", config.head, plain.head);
  expect("hidden", config.hidden, plain.hidden);
  expect("norm_eps", config.norm_eps, plain.norm_eps);
  expect("qkv_bias", config.qkv_bias, plain.qkv_bias);
  expect("qk_norm", config.qk_norm, plain.qk_norm);
  expect("rope_theta", config.rope_theta, plain.rope_theta);
  expect("rope_scaling", config.rope_scaling, plain.rope_scaling);
}

}  // namespace twobw::architecture
