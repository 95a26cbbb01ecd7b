// GPT-2 (Radford et al. 2019): learned positions, layer norm before each half block, GELU (tanh), biases
// everywhere but in the head, dropout after the embedding, in the attention and on both residual branches.
// The forwards are in engine/models/gpt.cc.
//
// A block is five layers, so that stages are balanced even if half a block is too coarse. Layers inside a
// half block pass on inner activations and the residual stream.
#include <algorithm>
#include <cmath>

#include "planning/architecture/families.h"
#include "planning/architecture/family_parts.h"

namespace twobw::architecture {
namespace {

// Work of the layers for one sequence. tests/app/measure/profiler_test.cc compares the bytes with a profile.
class GptWork : public TransformerWork {
 public:
  GptWork(const ModelConfig& model, const Extent& extent)
      : TransformerWork(model, extent, kLayerNormStatistics), h_(model.heads) {}

  // Gathers the rows of tokens and positions, and adds them.
  Work embedding() const {
    Work work;
    work.element_bytes = (5 + drop_moves()) * stream();
    work.saved_bytes = work.kept = work.output = stream();  // the sum
    work.working = 3 * stream();                            // both summands and the sum
    return work;
  }

  // Norm and the product that makes queries, keys and values; passes on the residual stream.
  Work attention_in() const {
    Work work;
    work.matrix_flops = product(w_, 3 * w_);
    work.matrix_bytes = 4 * stream();
    work.element_bytes = 2 * stream();
    work.kept = 3 * stream();                                // queries, keys and values, by the attention
    work.saved_bytes = statistics() + stream() + work.kept;  // normed
    work.output = 4 * stream();
    work.working = 5 * stream();  // gradients: of both outputs, of normed
    return work;
  }

  // Attention, the product that follows, and the sum with the residual stream.
  Work attention_out() const {
    Work work;
    // Scores and mix are products of T x T by the width; half of them lies behind the causal mask. With
    // several documents it is more than half: this is of one.
    work.matrix_flops = product(w_, w_) + 2 * t_ * t_ * w_;
    work.matrix_bytes = 6 * stream();
    work.element_bytes = (3 + drop_moves()) * stream();
    work.saved_bytes = 2 * stream();  // mixed, the sum
    if (dropout_ > 0) {
      // Without the fused kernel: all weights, behind the causal mask too, are made and kept. The backward
      // makes one more matrix of their size, and has the gradients of queries, keys and values apart and
      // packed.
      const double weights = h_ * t_ * t_ * element_;
      work.matrix_flops += 2 * t_ * t_ * w_;
      work.element_bytes += 7 * weights + 8 * stream();
      work.saved_bytes += weights;
      work.working = std::max(6 * stream() + weights, 8 * stream());
    } else {
      work.saved_bytes += h_ * t_ * kStatisticBytes;  // the log of every row's sum
      work.working = 5 * stream();  // gradients: of the sum, of mixed, of queries, keys and values
    }
    if (documents_) work.working += document_mask_bytes(t_, element_);
    work.kept = work.output = stream();
    return work;
  }

  // Norm and the product to four times the width; passes on the residual stream.
  Work mlp_up() const {
    Work work;
    work.matrix_flops = product(w_, 4 * w_);
    work.matrix_bytes = 5 * stream();
    work.element_bytes = 2 * stream();
    work.saved_bytes = statistics() + (1 + 4) * stream();  // normed; GELU's input
    work.kept = 4 * stream();
    work.output = 5 * stream();
    work.working = 6 * stream();  // gradients: of both outputs, of normed
    return work;
  }

  // GELU; passes on the residual stream.
  Work mlp_activation() const {
    Work work;
    work.element_bytes = 8 * stream();
    work.saved_bytes = work.kept = 4 * stream();
    work.output = 5 * stream();
    work.working = 9 * stream();  // gradients: of both outputs, of GELU's input
    return work;
  }

  // The product back to the width, and the sum with the residual stream.
  Work mlp_down() const {
    Work work;
    work.matrix_flops = product(4 * w_, w_);
    work.matrix_bytes = 5 * stream();
    work.element_bytes = (3 + drop_moves()) * stream();
    work.saved_bytes = work.kept = work.output = stream();  // the sum
    work.working = (5 + dropped()) * stream();  // gradients: of the sum, of the product, of its input
    return work;
  }

 private:
  double h_;
};

void add_block(Model& model, const ModelConfig& config, int block) {
  const std::string at = "blocks." + std::to_string(block) + ".attention.";
  const std::string of = "blocks." + std::to_string(block) + ".mlp.";
  const std::int64_t w = config.width;
  const double std = kStd / std::sqrt(2.0 * config.layers);  // of outputs to the residual stream
  model.push_back(layer(config, "attention_in",
                        {gain(at + "norm.weight", w), bias(at + "norm.bias", w),
                         hidden(at + "qkv.weight", {w, w, w}, w), bias(at + "qkv.bias", 3 * w)},
                        &GptWork::attention_in));
  model.push_back(layer(config, "attention_out",
                        {hidden(at + "out.weight", {w}, w, std), bias(at + "out.bias", w)},
                        &GptWork::attention_out, document_fields(config)));
  model.push_back(layer(config, "mlp_up",
                        {gain(of + "norm.weight", w), bias(of + "norm.bias", w),
                         hidden(of + "up.weight", {4 * w}, w), bias(of + "up.bias", 4 * w)},
                        &GptWork::mlp_up));
  model.push_back(layer(config, "mlp_activation", {}, &GptWork::mlp_activation));
  model.push_back(layer(config, "mlp_down",
                        {hidden(of + "down.weight", {w}, 4 * w, std), bias(of + "down.bias", w)},
                        &GptWork::mlp_down));
}

}  // namespace

Model describe_gpt(const ModelConfig& config) {
  refuse_foreign_keys(config, {"max_positions", "reset_documents"});
  check_head(config, ModelHead::CausalLm);
  check_documents(config);
  const std::int64_t w = config.width;
  Model model;
  model.push_back(layer(
      config, "embedding",
      {matrix("embedding.tokens", config.vocab, w), matrix("embedding.positions", positions_of(config), w)},
      &GptWork::embedding, BatchFields{Field::Tokens} | document_fields(config)));
  for (int block = 0; block < config.layers; ++block) add_block(model, config, block);
  add_decoder_head<GptWork>(model, config, {gain("head.norm.weight", w), bias("head.norm.bias", w)});
  return model;
}

}  // namespace twobw::architecture
