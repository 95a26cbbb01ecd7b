// The description of BERT; what its layers keep is held against a profile in
// tests/app/measure/profiler_test.cc.
#include <gtest/gtest.h>

#include <map>

#include "core/base/error.h"
#include "planning/architecture/bert.h"
#include "planning/architecture/families.h"
#include "planning/planner/costs/layer_costs.h"

namespace twobw::architecture {
namespace {

// As bert-base-uncased.
ModelConfig bert_base(ModelHead head = ModelHead::Auto) {
  return {.family = "bert",
          .layers = 12,
          .width = 768,
          .heads = 12,
          .vocab = 30522,
          .context = 512,
          .head = head};
}

std::string bert_refusal(const ModelConfig& config) {
  try {
    model_of(config);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(DescribedBert, HasThePublishedNumberOfParameters) {
  EXPECT_EQ(parameter_count(model_of(bert_base())), 109'514'298);  // BertForMaskedLM
  EXPECT_EQ(parameter_count(model_of(bert_base(ModelHead::Classification))), 109'483'778);
  EXPECT_EQ(parameter_count(model_of(bert_base(ModelHead::Regression))), 109'483'778 - 769);
}

TEST(DescribedBert, IsAnEmbeddingPartsOfBlocksAndAHead) {
  ModelConfig config = bert_base();
  EXPECT_EQ(describe(model_of(config)),
            "63 layers: embedding, 12 x (attention_in, attention_out, mlp_up, mlp_activation, mlp_down), "
            "transform, head");
  EXPECT_EQ(model_of(config).at(layers_below_head(config)).kind, "transform");
  config.head = ModelHead::Classification;
  EXPECT_EQ(model_of(config).at(layers_below_head(config)).kind, "head");
  EXPECT_EQ(
      describe(model_of(config)),
      "62 layers: embedding, 12 x (attention_in, attention_out, mlp_up, mlp_activation, mlp_down), head");
}

TEST(DescribedBert, MayTellTheNextSentence) {
  ModelConfig config = bert_base();
  config.next_sentence = true;
  EXPECT_EQ(parameter_count(model_of(config)), 110'106'428);  // BertForPreTraining
  EXPECT_EQ(model_of(config).back().takes, kTokenAndSequenceLoss);
  EXPECT_GT(model_of(config).at(61).work({}).output, model_of(bert_base()).at(61).work({}).output);
  config.head = ModelHead::Classification;
  EXPECT_EQ(bert_refusal(config),
            "model.next_sentence is true, but model.head is classification; it must be masked_lm");
  EXPECT_EQ(bert_refusal({.next_sentence = true}),
            "model.next_sentence is true; it must be false where model.family is gpt");
}

TEST(DescribedBert, MayHaveMorePositionsThanTheContext) {
  ModelConfig config = bert_base();
  config.context = 64;
  const auto rows = [&] { return model_of(config).front().parameters.at(1).shape.front(); };
  EXPECT_EQ(rows(), 64);
  config.positions = 512;
  EXPECT_EQ(rows(), 512);
  config.family = "gpt";
  EXPECT_EQ(rows(), 512);
  config.family = "llama";
  EXPECT_EQ(bert_refusal(config), "model.positions is 512; it must be 0 where model.family is llama");
}

TEST(DescribedBert, EveryLayerTakesWhatItReads) {
  const auto taken = [](const ModelConfig& config) {
    std::map<std::string, BatchFields> by_kind;
    for (const Layer& layer : model_of(config)) by_kind[layer.kind] = layer.takes;
    return by_kind;
  };
  auto fields = taken(bert_base());
  EXPECT_EQ(fields.at("embedding"), (BatchFields{Field::Tokens, Field::TokenTypes}));
  EXPECT_EQ(fields.at("attention_out"), BatchFields{Field::Lengths});
  EXPECT_TRUE(fields.at("attention_in").empty() && fields.at("mlp_down").empty() &&
              fields.at("transform").empty());
  EXPECT_EQ(fields.at("head"), kTokenLoss);
  EXPECT_EQ(taken(bert_base(ModelHead::Classification)).at("head"), kSequenceLoss);
  EXPECT_EQ(taken(bert_base(ModelHead::Regression)).at("head"), kRegressionLoss);
  ModelConfig whole = bert_base();
  whole.padding = false;
  EXPECT_TRUE(taken(whole).at("attention_out").empty());
}

TEST(DescribedBert, TheOutputIsTiedToTheTokensAndItsBiasIsItsOwn) {
  for (const bool tied : {true, false}) {
    ModelConfig config = bert_base();
    config.tied = tied;
    const Model model = model_of(config);
    const std::vector<Parameter>& head = model.back().parameters;
    EXPECT_EQ(head.at(0).tied_to, tied ? "embedding.tokens" : "");
    EXPECT_EQ(head.at(1).shape, std::vector<std::int64_t>{30522});
    EXPECT_EQ(planner::shapes_of(model).back().tied, tied ? 30522.0 * 768 : 0);
  }
}

// Two operations a parameter and token in the forward; the embedding has none, and attention, of which
// nothing is masked, comes on top.
TEST(DescribedBert, CountsTheUsualNumberOfOperations) {
  ModelConfig config = bert_base();
  config.tied = false;
  double flops = 0, parameters = 0;
  for (const Layer& layer : model_of(config)) {
    flops += layer.work({.context = 512}).matrix_flops;
    if (layer.kind != "embedding") parameters += parameter_count(layer);
  }
  const double attention = 12 * 4.0 * 512 * 512 * 768;
  EXPECT_NEAR(flops / (2 * parameters * 512 + attention), 1, 0.002);
}

TEST(DescribedBert, HalfThePrecisionIsAboutHalfTheBytes) {
  for (const ModelHead head : {ModelHead::MaskedLm, ModelHead::Classification}) {
    for (const Layer& layer : model_of(bert_base(head))) {
      const Work whole = layer.work({.context = 512, .element = 4}),
                 half = layer.work({.context = 512, .element = 2});
      EXPECT_EQ(whole.matrix_flops, half.matrix_flops);
      EXPECT_EQ(whole.output, 2 * half.output);
      EXPECT_NEAR(whole.saved_bytes / half.saved_bytes, 2, 0.02) << layer.kind;
    }
  }
}

// For optimizers that treat matrices as such.
TEST(DescribedBert, QueriesKeysAndValuesAreMatricesOfTheirOwn) {
  std::map<std::string, std::vector<std::int64_t>> matrices;
  for (const Layer& layer : model_of(bert_base())) {
    for (const Parameter& parameter : layer.parameters) matrices[parameter.name] = parameter.matrices;
  }
  using Rows = std::vector<std::int64_t>;
  EXPECT_EQ(matrices.at("blocks.3.attention.qkv.weight"), (Rows{768, 768, 768}));
  EXPECT_EQ(matrices.at("blocks.3.mlp.up.weight"), (Rows{3072}));
  EXPECT_EQ(matrices.at("head.transform.weight"), (Rows{768}));
  EXPECT_EQ(matrices.at("embedding.types"), Rows());
  EXPECT_EQ(matrices.at("head.weight"), Rows());
  EXPECT_EQ(matrices.at("head.bias"), Rows());
}

TEST(DescribedBert, MatricesDecayAndBiasesAndGainsDoNot) {
  for (const ModelHead head : {ModelHead::MaskedLm, ModelHead::Classification}) {
    for (const Layer& layer : model_of(bert_base(head))) {
      for (const Parameter& parameter : layer.parameters) {
        const bool is_matrix = parameter.shape.size() == 2;
        EXPECT_EQ(parameter.decay, is_matrix) << parameter.name;
        EXPECT_EQ(parameter.init_std, is_matrix ? 0.02 : 0) << parameter.name;
        EXPECT_EQ(parameter.init_mean, parameter.name.ends_with("norm.weight") ? 1 : 0) << parameter.name;
      }
    }
  }
}

TEST(DescribedBert, WhatItCannotBeIsRefused) {
  EXPECT_EQ(bert_refusal(bert_base(ModelHead::CausalLm)),
            "model.head is causal_lm; where model.family is bert it must be masked_lm, classification or "
            "regression");
  ModelConfig config = bert_base();
  config.qk_norm = true;
  EXPECT_EQ(bert_refusal(config), "model.qk_norm is true; it must be false where model.family is bert");
  EXPECT_EQ(bert_refusal({.token_types = 3}),
            "model.token_types is 3; it must be 2 where model.family is gpt");
  EXPECT_EQ(bert_refusal({.family = "llama", .padding = false}),
            "model.padding is false; it must be true where model.family is llama");
  EXPECT_EQ(bert_refusal({.head = ModelHead::MaskedLm}),
            "model.head is masked_lm; where model.family is gpt it must be causal_lm, classification or "
            "regression");
}

}  // namespace
}  // namespace twobw::architecture
