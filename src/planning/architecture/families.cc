#include "planning/architecture/families.h"

#include <algorithm>

#include "core/base/error.h"
#include "planning/architecture/family_parts.h"

namespace twobw::architecture {

#define TWOBW_DECLARE(family) Model describe_##family(const ModelConfig&);
TWOBW_FAMILIES(TWOBW_DECLARE)

namespace {

std::vector<Family>& registry() {
#define TWOBW_ENTRY(family) {#family, describe_##family},
  static std::vector<Family> all = {TWOBW_FAMILIES(TWOBW_ENTRY)};
  return all;
}

}  // namespace

const std::vector<Family>& families() {
  return registry();
}

void add_family(Family family) {
  registry().push_back(std::move(family));
}

Model model_of(const ModelConfig& config) {
  std::string known;
  for (const Family& family : families()) {
    if (family.name == config.family) return family.describe(config);
    known += (known.empty() ? "" : ", ") + family.name;
  }
  fail_input("model.family is '{}'; allowed: {}", config.family, known);
}

ModelHead head_of(const ModelConfig& config) {
  if (config.head != ModelHead::Auto) return config.head;
  return config.family == "bert" ? ModelHead::MaskedLm : ModelHead::CausalLm;
}

TransformerWork::TransformerWork(const ModelConfig& model, const Extent& extent, double statistics)
    : documents_(model.reset_documents),
      dropout_(model.dropout),
      statistics_(statistics),
      element_(extent.element),
      t_(extent.context),
      w_(model.width),
      v_(model.vocab),
      outputs_(static_cast<double>(outputs_of(model))) {}

Work TransformerWork::head() const {
  Work work;
  const double logits = bytes(v_);
  work.matrix_flops = product(w_, v_);
  work.matrix_bytes = stream() + logits;
  work.element_bytes = 2 * stream() + 4 * logits;
  work.saved_bytes = statistics() + stream() + logits;
  work.working = stream();  // gradient of normed; that of the logits is gone before the next
  return work;
}

Work TransformerWork::sequence_head() const {
  Work work;
  work.matrix_flops = 2 * w_ * outputs_;
  work.matrix_bytes = (w_ + outputs_) * element_;
  work.element_bytes = stream();
  work.saved_bytes = (2 * w_ + outputs_) * element_ + statistics_ * kStatisticBytes + kIndexBytes;
  work.working = stream();  // gradient of all tokens
  return work;
}

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
