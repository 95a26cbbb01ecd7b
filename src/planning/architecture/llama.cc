// Llama (Touvron et al. 2023): RMS norm before each half block, rotary positions, grouped-query attention,
// SwiGLU, no biases. Qwen2 has qkv_bias, Qwen3 has qk_norm. The forwards are in engine/models/llama.cc.
//
// A block is five layers, as a GPT's: see planning/architecture/gpt.cc.
#include "planning/architecture/llama.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/base/error.h"
#include "planning/architecture/families.h"
#include "planning/architecture/family_parts.h"

namespace twobw::architecture {
namespace {

// Work of the layers for one sequence. tests/app/measure/profiler_test.cc compares the bytes with a profile.
class LlamaWork : public TransformerWork {
 public:
  LlamaWork(const ModelConfig& model, const Extent& extent)
      : TransformerWork(model, extent, 1),
        qk_norm_(model.qk_norm),
        f_(static_cast<double>(hidden_size(model))),
        heads_(model.heads),
        kv_heads_(kv_heads(model)),
        queries_(heads_ * head_size(model)),
        keys_(kv_heads_ * head_size(model)) {}

  // Gathers the rows of the tokens.
  Work embedding() const {
    Work work;
    work.element_bytes = 2 * stream();
    work.saved_bytes = work.kept = work.output = work.working = stream();
    return work;
  }

  // Norm and the product that makes queries, keys and values; passes on the residual stream.
  Work attention_in() const {
    Work work;
    work.matrix_flops = product(w_, packed());
    work.matrix_bytes = stream() + bytes(packed());
    work.element_bytes = 2 * stream();
    work.saved_bytes = statistics() + stream();  // normed; queries, keys and values are kept turned
    work.output = stream() + bytes(packed());
    work.working = 2 * stream() + bytes(packed());  // gradients: of both outputs, of normed
    return work;
  }

  // Norms of the heads where there are any, rotation, attention, the product that follows, and the sum with
  // the residual stream.
  Work attention_out() const {
    Work work;
    // Scores and mix are products of T x T by the queries' width; half of them lies behind the causal mask.
    // With several documents it is more than half: this is of one.
    work.matrix_flops = product(queries_, w_) + 2 * t_ * t_ * queries_;
    work.matrix_bytes = bytes(packed()) + 2 * bytes(queries_) + stream();
    work.element_bytes = 2 * bytes(packed()) + 3 * stream();
    // Turned queries, keys and values; mixed; the sum; the log of every row's sum.
    work.saved_bytes = bytes(packed()) + bytes(queries_) + stream() + row_statistics(heads_);
    if (qk_norm_) {
      work.element_bytes += 4 * bytes(packed());
      work.saved_bytes += bytes(queries_ + keys_) + row_statistics(heads_ + kv_heads_);
    }
    work.kept = work.output = stream();
    // Gradients: of the sum, of mixed, of queries, keys and values, turned back or not.
    work.working = stream() + bytes(queries_) + 2 * bytes(packed());
    // Keys and values for every head of queries, and their gradients.
    if (documents_) work.working += document_mask_bytes(t_, element_) + 4 * bytes(queries_);
    return work;
  }

  // Norm and the product to gates and values; passes on the residual stream.
  Work mlp_up() const {
    Work work;
    work.matrix_flops = product(w_, 2 * f_);
    work.matrix_bytes = stream() + bytes(2 * f_);
    work.element_bytes = 2 * stream();
    work.kept = bytes(2 * f_);
    work.saved_bytes = statistics() + stream() + work.kept;  // normed; gates and values
    work.output = stream() + bytes(2 * f_);
    work.working = 2 * stream() + bytes(2 * f_);  // gradients: of both outputs, of normed
    return work;
  }

  // SwiGLU; passes on the residual stream.
  Work mlp_activation() const {
    Work work;
    work.element_bytes = bytes(3 * f_);
    work.saved_bytes = work.kept = bytes(f_);
    work.output = stream() + bytes(f_);
    work.working = stream() + bytes(3 * f_);  // gradients: of both outputs, of gates and values
    return work;
  }

  // The product back to the width, and the sum with the residual stream.
  Work mlp_down() const {
    Work work;
    work.matrix_flops = product(f_, w_);
    work.matrix_bytes = stream() + bytes(f_);
    work.element_bytes = 3 * stream();
    work.saved_bytes = work.kept = work.output = stream();
    work.working = stream() + bytes(f_);  // gradients: of the sum, of the product's input
    return work;
  }

 private:
  double row_statistics(double rows) const { return kStatisticBytes * t_ * rows; }
  double packed() const { return queries_ + 2 * keys_; }  // width of queries, keys and values

  bool qk_norm_;
  double f_, heads_, kv_heads_, queries_, keys_;
};

void add_llama_block(Model& model, const ModelConfig& config, int block) {
  const std::string at = "blocks." + std::to_string(block) + ".attention.";
  const std::string of = "blocks." + std::to_string(block) + ".mlp.";
  const std::int64_t w = config.width, f = hidden_size(config), head = head_size(config);
  const std::int64_t queries = config.heads * head, keys = kv_heads(config) * head;
  std::vector<Parameter> in = {gain(at + "norm.weight", w),
                               hidden(at + "qkv.weight", {queries, keys, keys}, w)};
  if (config.qkv_bias) in.push_back(bias(at + "qkv.bias", queries + 2 * keys));
  std::vector<Parameter> out = {hidden(at + "out.weight", {w}, queries)};
  if (config.qk_norm) {
    out.push_back(gain(at + "q_norm.weight", head));
    out.push_back(gain(at + "k_norm.weight", head));
  }
  model.push_back(layer(config, "attention_in", in, &LlamaWork::attention_in));
  model.push_back(layer(config, "attention_out", out, &LlamaWork::attention_out, document_fields(config)));
  model.push_back(layer(config, "mlp_up",
                        {gain(of + "norm.weight", w), hidden(of + "gate_up.weight", {f, f}, w)},
                        &LlamaWork::mlp_up));
  model.push_back(layer(config, "mlp_activation", {}, &LlamaWork::mlp_activation));
  model.push_back(layer(config, "mlp_down", {hidden(of + "down.weight", {w}, f)}, &LlamaWork::mlp_down));
}

// Base that stretches the lowest frequency like the sequence, and the highest one not at all.
double dynamic_base(const ModelConfig& config, std::int64_t length) {
  const double head = head_size(config);
  const double longer = static_cast<double>(length) / config.rope_original_context;
  const double stretch = config.rope_factor * longer - (config.rope_factor - 1);
  return config.rope_theta * std::pow(stretch, head / (head - 2));
}

double llama3_frequency(const ModelConfig& config, double frequency) {
  const double turns = config.rope_original_context * frequency / (2 * std::numbers::pi);
  const double low = config.rope_low_freq_factor, high = config.rope_high_freq_factor;
  const double stays = std::clamp((turns - low) / (high - low), 0.0, 1.0);
  return stays * frequency + (1 - stays) * frequency / config.rope_factor;
}

// Refuses angles that depend on the length, as that of a batch varies with its texts.
void check_dynamic_lengths(const ModelConfig& config) {
  if (!depend_on_length(config, config.context) || !is_sequence_head(config.head)) return;
  fail_input(
      "model.context is {}; where model.rope_scaling is dynamic and model.head is {} it must be at most "
      "model.rope_original_context, which is {}, as texts differ in length",
      config.context, name(config.head), config.rope_original_context);
}

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

}  // namespace

bool depend_on_length(const ModelConfig& config, std::int64_t length) {
  return config.rope_scaling == "dynamic" && length > config.rope_original_context;
}

std::vector<double> rotary_frequencies(const ModelConfig& config, std::int64_t length) {
  const int head = head_size(config);
  const double base = depend_on_length(config, length) ? dynamic_base(config, length) : config.rope_theta;
  std::vector<double> frequencies;
  for (int i = 0; i < head / 2; ++i) {
    double frequency = std::pow(base, -2.0 * i / head);
    if (config.rope_scaling == "linear") frequency /= config.rope_factor;
    if (config.rope_scaling == "llama3") frequency = llama3_frequency(config, frequency);
    frequencies.push_back(frequency);
  }
  return frequencies;
}

Model describe_llama(const ModelConfig& config) {
  check_llama(config);
  const std::int64_t w = config.width;
  Model model;
  model.push_back(layer(config, "embedding", {matrix("embedding.tokens", config.vocab, w)},
                        &LlamaWork::embedding, {Field::Tokens}));
  for (int block = 0; block < config.layers; ++block) add_llama_block(model, config, block);
  add_decoder_head<LlamaWork>(model, config, {gain("head.norm.weight", w)});
  return model;
}

}  // namespace twobw::architecture
