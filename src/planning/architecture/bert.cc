// BERT (Devlin et al. 2019): embeddings of tokens, positions and token types under one norm, bidirectional
// attention, layer norm after each half block, GELU (erf), biases everywhere, dropout after the embedding, in
// the attention and on both residual branches. It predicts masked tokens (a transform, then logits by the
// token embedding), optionally with the next sentence, or outputs for a sequence, from the first token
// through a pooler. The forwards are in engine/models/bert.cc.
//
// A block is five layers, as a GPT's: see planning/architecture/gpt.cc.

#include <algorithm>

#include "core/base/error.h"
#include "planning/architecture/families.h"
#include "planning/architecture/family_parts.h"

namespace twobw::architecture {
namespace {

// Work of the layers for one sequence. tests/app/measure/profiler_test.cc compares the bytes with a profile.
class BertWork : public TransformerWork {
 public:
  BertWork(const ModelConfig& model, const Extent& extent)
      : TransformerWork(model, extent, kLayerNormStatistics),
        padding_(model.padding),
        f_(static_cast<double>(inner_size(model))),
        h_(model.heads),
        firsts_(model.next_sentence ? 1 : 0) {}

  // Gathers the rows of tokens, places and types, adds them, and norms the sum.
  Work embedding() const {
    Work work;
    work.element_bytes = (10 + drop_moves()) * stream();
    work.saved_bytes = 2 * stream() + statistics();  // the sum, normed
    work.kept = work.output = stream();
    work.working = 2.5 * stream();  // two summands; parts of the gradient of the norm's gain
    return work;
  }

  // The product that makes queries, keys and values; passes on the residual stream.
  Work attention_in() const {
    Work work;
    work.matrix_flops = product(w_, 3 * w_);
    work.matrix_bytes = 4 * stream();
    work.saved_bytes = work.kept = 3 * stream();  // queries, keys and values, by the attention
    work.output = 4 * stream();
    work.working = 5 * stream();  // gradients: of both outputs, of the input
    return work;
  }

  // Attention, the product that follows, the sum with the residual stream, and its norm.
  Work attention_out() const {
    Work work;
    work.matrix_flops = product(w_, w_) + 4 * t_ * t_ * w_;  // scores and mix are products of T x T
    work.matrix_bytes = 6 * stream();
    work.element_bytes = (5 + drop_moves()) * stream();
    work.saved_bytes = 3 * stream() + statistics();  // mixed, the sum, normed
    if (dropout_ > 0) {
      // Without the fused kernel: all weights are made and kept. The backward makes one more matrix of their
      // size, and has the gradients of queries, keys and values apart and packed.
      const double weights = h_ * t_ * t_ * element_;
      work.element_bytes += 7 * weights + 8 * stream();
      work.saved_bytes += weights;
      work.working = std::max(5 * stream() + weights, 7 * stream());
    } else {
      // The log of every row's sum, and the mask of the padding.
      work.saved_bytes += h_ * t_ * kStatisticBytes + (padding_ ? t_ * element_ : 0);
      work.working = 4 * stream();  // gradients: of mixed, of queries, keys and values
    }
    work.kept = work.output = stream();
    return work;
  }

  // The product to the inner size; passes on the residual stream.
  Work mlp_up() const {
    Work work;
    work.matrix_flops = product(w_, f_);
    work.matrix_bytes = stream() + inner();
    work.saved_bytes = work.kept = inner();  // GELU's input
    work.output = stream() + inner();
    work.working = 2 * stream() + inner();  // gradients: of both outputs, of the input
    return work;
  }

  // GELU; passes on the residual stream.
  Work mlp_activation() const {
    Work work;
    work.element_bytes = 2 * inner();
    work.saved_bytes = work.kept = inner();
    work.output = stream() + inner();
    work.working = stream() + 2 * inner();  // gradients: of both outputs, of GELU's input
    return work;
  }

  // The product back to the width, the sum with the residual stream, and its norm.
  Work mlp_down() const {
    Work work;
    work.matrix_flops = product(f_, w_);
    work.matrix_bytes = stream() + inner();
    work.element_bytes = (5 + drop_moves()) * stream();
    work.saved_bytes = 2 * stream() + statistics();  // the sum, normed
    work.kept = work.output = stream();
    // Gradients: of both sides of the norm; of the product's input and, where it drops, of the product.
    work.working = std::max(2 * stream(), inner() + dropped() * stream());
    return work;
  }

  // A product, GELU and a norm; passes on the first token for the next-sentence head.
  Work transform() const {
    Work work;
    work.matrix_flops = product(w_, w_);
    work.matrix_bytes = 2 * stream();
    work.element_bytes = 4 * stream();
    work.saved_bytes = 3 * stream() + statistics() + first_token();  // GELU's input and output, normed
    work.kept = work.output = stream() + first_token();
    work.working = 2 * stream();  // gradients: of both sides of a step
    return work;
  }

  // Logits of tokens and loss. The forward leaves the gradient of the logits in their place. The next
  // sentence is predicted from the pooled first token.
  Work head() const {
    Work work;
    const double logits = t_ * v_ * element_, pair = firsts_ * kNextSentences * element_;
    work.matrix_flops = product(w_, v_) + firsts_ * 2 * w_ * (w_ + kNextSentences);
    work.matrix_bytes = stream() + logits + 3 * first_token() + pair;
    work.element_bytes = 4 * logits;
    work.saved_bytes = logits + first_token() + pair;
    work.working = stream();  // gradient of the input; that of the logits is gone before the next
    return work;
  }

  // The first token's pooler, logits and loss.
  Work sequence_head() const {
    Work work;
    work.matrix_flops = 2 * w_ * (w_ + outputs_);
    work.matrix_bytes = (3 * w_ + outputs_) * element_;
    work.element_bytes = stream();
    work.saved_bytes = ((2 + dropped()) * w_ + outputs_) * element_;  // the token, pooled, dropped out
    work.working = stream();                                          // gradient of all tokens
    return work;
  }

 private:
  double inner() const { return bytes(f_); }
  double first_token() const { return firsts_ * w_ * element_; }  // separate copy, if needed

  bool padding_;
  double f_, h_;
  double firsts_;  // pooled tokens per sequence, for the next-sentence head
};

void add_bert_block(Model& model, const ModelConfig& config, int block) {
  const std::string at = "blocks." + std::to_string(block) + ".attention.";
  const std::string of = "blocks." + std::to_string(block) + ".mlp.";
  const std::int64_t w = config.width, f = inner_size(config);
  model.push_back(layer(config, "attention_in",
                        {hidden(at + "qkv.weight", {w, w, w}, w), bias(at + "qkv.bias", 3 * w)},
                        &BertWork::attention_in));
  model.push_back(layer(config, "attention_out",
                        {hidden(at + "out.weight", {w}, w), bias(at + "out.bias", w),
                         gain(at + "norm.weight", w), bias(at + "norm.bias", w)},
                        &BertWork::attention_out,
                        config.padding ? BatchFields{Field::Lengths} : BatchFields{}));
  model.push_back(layer(config, "mlp_up", {hidden(of + "up.weight", {f}, w), bias(of + "up.bias", f)},
                        &BertWork::mlp_up));
  model.push_back(layer(config, "mlp_activation", {}, &BertWork::mlp_activation));
  model.push_back(layer(config, "mlp_down",
                        {hidden(of + "down.weight", {w}, f), bias(of + "down.bias", w),
                         gain(of + "norm.weight", w), bias(of + "norm.bias", w)},
                        &BertWork::mlp_down));
}

void add_language_head(Model& model, const ModelConfig& config) {
  const std::int64_t w = config.width;
  model.push_back(layer(config, "transform",
                        {hidden("head.transform.weight", {w}, w), bias("head.transform.bias", w),
                         gain("head.norm.weight", w), bias("head.norm.bias", w)},
                        &BertWork::transform));
  std::vector<Parameter> head = {language_output(config), bias("head.bias", config.vocab)};
  if (config.next_sentence) {
    head.push_back(hidden("head.pooler.weight", {w}, w));
    head.push_back(bias("head.pooler.bias", w));
    head.push_back(matrix("head.next_sentence.weight", kNextSentences, w));
    head.push_back(bias("head.next_sentence.bias", kNextSentences));
  }
  model.push_back(layer(config, "head", head, &BertWork::head,
                        config.next_sentence ? kTokenAndSequenceLoss : kTokenLoss));
}

void add_sequence_head(Model& model, const ModelConfig& config) {
  const std::int64_t w = config.width, outputs = outputs_of(config);
  model.push_back(layer(config, "head",
                        {hidden("head.pooler.weight", {w}, w), bias("head.pooler.bias", w),
                         matrix("head.weight", outputs, w), bias("head.bias", outputs)},
                        &BertWork::sequence_head, sequence_loss(config)));
}

}  // namespace

Model describe_bert(const ModelConfig& config) {
  refuse_foreign_keys(config,
                      {"max_positions", "hidden", "norm_eps", "token_types", "next_sentence", "padding"});
  check_head(config, ModelHead::MaskedLm);
  if (config.next_sentence && is_sequence_head(config.head)) {
    fail_input("model.next_sentence is true, but model.head is {}; it must be masked_lm", name(config.head));
  }
  const std::int64_t w = config.width;
  Model model;
  model.push_back(layer(
      config, "embedding",
      {matrix("embedding.tokens", config.vocab, w), matrix("embedding.positions", positions_of(config), w),
       matrix("embedding.types", config.token_types, w), gain("embedding.norm.weight", w),
       bias("embedding.norm.bias", w)},
      &BertWork::embedding, {Field::Tokens, Field::TokenTypes}));
  for (int block = 0; block < config.layers; ++block) add_bert_block(model, config, block);
  if (is_sequence_head(config.head)) {
    add_sequence_head(model, config);
  } else {
    add_language_head(model, config);
  }
  model.back().gradients_in_forward = true;
  return model;
}

}  // namespace twobw::architecture
