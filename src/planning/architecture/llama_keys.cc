#include "core/base/error.h"
#include "planning/architecture/documents.h"
#include "planning/architecture/heads.h"
#include "planning/architecture/keys.h"
#include "planning/architecture/llama.h"
#include "planning/architecture/rotary.h"

namespace twobw::architecture {

namespace {

// Angles that depend on the length of a sequence would depend on how long the batch is.
void check_dynamic_lengths(const ModelConfig& config) {
  if (!depend_on_length(config, config.context) || !tells_of_sequences(config.head)) return;
  fail_input(
      "model.context is {}; where model.rope_scaling is dynamic and model.head is {} it must be at most "
      "model.rope_original_context, which is {}, as texts differ in length",
      config.context, name(config.head), config.rope_original_context);
}

}  // namespace

void check_llama(const ModelConfig& config) {
  refuse_foreign_keys(config, {"kv_heads", "head_size", "hidden", "norm_eps", "reset_documents", "qkv_bias",
                               "qk_norm", "rope_theta", "rope_scaling"});
  check_head(config, ModelHead::CausalLm);
  check_documents(config);
  check_dynamic_lengths(config);
  if (config.dropout > 0)
    fail_input("model.dropout is {}; it must be 0 where model.family is llama", config.dropout);
  const int head = head_size(config);
  if (head % 2 != 0) {
    fail_input("attention heads have size {} ({}); for the rotary embedding it must be even", head,
               config.head_size > 0 ? "model.head_size" : "model.width / model.heads");
  }
  if (config.rope_scaling == "dynamic" && head < 4)
    fail_input("attention heads have size {}; where model.rope_scaling is dynamic it must be at least 4",
               head);
}

}  // namespace twobw::architecture
