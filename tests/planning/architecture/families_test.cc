// Descriptions of the families. tests/app/measure/profiler_test.cc compares their bytes with a profile.
#include "planning/architecture/families.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <numbers>

#include "core/base/error.h"
#include "planning/architecture/llama.h"
#include "planning/planner/costs/layer_costs.h"
#include "tests/support/refusal.h"

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

// As Llama 3.2 1B.
ModelConfig one_billion() {
  return {.family = "llama",
          .layers = 16,
          .width = 2048,
          .heads = 32,
          .vocab = 128256,
          .context = 2048,
          .kv_heads = 8,
          .hidden = 8192};
}

ModelConfig gpt_medium() {
  return {.layers = 24, .width = 1024, .heads = 16, .vocab = 50304, .context = 512};
}

std::string refusal(const ModelConfig& config) {
  return error_of([&] { model_of(config); });
}

std::map<std::string, Parameter> parameters_of(const ModelConfig& config) {
  std::map<std::string, Parameter> parameters;
  for (const Layer& layer : model_of(config)) {
    for (const Parameter& parameter : layer.parameters) parameters[parameter.name] = parameter;
  }
  return parameters;
}

TEST(Families, HaveThePublishedNumberOfParameters) {
  EXPECT_EQ(parameter_count(model_of(bert_base())), 109'514'298);  // BertForMaskedLM
  EXPECT_EQ(parameter_count(model_of(bert_base(ModelHead::Classification))), 109'483'778);
  EXPECT_EQ(parameter_count(model_of(bert_base(ModelHead::Regression))), 109'483'778 - 769);
  EXPECT_EQ(parameter_count(model_of(one_billion())), 1'235'814'400);  // Llama 3.2 1B
  const ModelConfig qwen2{.family = "llama",
                          .layers = 24,
                          .width = 896,
                          .heads = 14,
                          .vocab = 151936,
                          .kv_heads = 2,
                          .hidden = 4864,
                          .qkv_bias = true};
  EXPECT_EQ(parameter_count(model_of(qwen2)), 494'032'768);  // Qwen2 0.5B
  const ModelConfig qwen3{.family = "llama",
                          .layers = 28,
                          .width = 1024,
                          .heads = 16,
                          .vocab = 151936,
                          .kv_heads = 8,
                          .head_size = 128,
                          .hidden = 3072,
                          .qk_norm = true};
  EXPECT_EQ(parameter_count(model_of(qwen3)), 596'049'920);  // Qwen3 0.6B
}

// Two operations per parameter and token in the forward, plus attention; the embedding has none.
TEST(Families, CountTheUsualNumberOfOperations) {
  for (ModelConfig config : {gpt_medium(), one_billion(), bert_base()}) {
    config.tied = false;
    double flops = 0, parameters = 0;
    for (const Layer& layer : model_of(config)) {
      flops += layer.work({.context = static_cast<double>(config.context)}).matrix_flops;
      if (layer.kind != "embedding") parameters += parameter_count(layer);
    }
    const double tokens = config.context, masked = config.family == "bert" ? 1 : 0.5;
    const double attention = config.layers * masked * 4 * tokens * tokens * config.width;
    EXPECT_NEAR(flops / (2 * parameters * tokens + attention), 1, 0.002) << config.family;
  }
}

TEST(Families, MatricesDecayAndBiasesAndGainsDoNot) {
  for (const ModelConfig& config : {one_billion(), bert_base(), bert_base(ModelHead::Classification)}) {
    for (const auto& [name, parameter] : parameters_of(config)) {
      const bool is_matrix = parameter.shape.size() == 2;
      EXPECT_EQ(parameter.decay, is_matrix) << name;
      EXPECT_EQ(parameter.init_std, is_matrix ? 0.02 : 0) << name;
      EXPECT_EQ(parameter.init_mean, name.ends_with("norm.weight") ? 1 : 0) << name;
    }
  }
}

// For optimizers of matrices.
TEST(Families, QueriesKeysAndValuesAreSeparateMatrices) {
  using Rows = std::vector<std::int64_t>;
  const auto bert = parameters_of(bert_base()), llama = parameters_of(one_billion());
  EXPECT_EQ(bert.at("blocks.3.attention.qkv.weight").matrices, (Rows{768, 768, 768}));
  EXPECT_EQ(bert.at("head.transform.weight").matrices, (Rows{768}));
  EXPECT_EQ(llama.at("blocks.3.attention.qkv.weight").matrices, (Rows{2048, 512, 512}));
  EXPECT_EQ(llama.at("blocks.3.attention.out.weight").matrices, (Rows{2048}));
  EXPECT_EQ(llama.at("blocks.3.mlp.gate_up.weight").matrices, (Rows{8192, 8192}));
  EXPECT_EQ(llama.at("blocks.3.mlp.down.weight").matrices, (Rows{2048}));
  for (const char* name : {"embedding.types", "head.weight", "head.bias"})
    EXPECT_EQ(bert.at(name).matrices, Rows());
}

TEST(Families, BothEndsOfATieCountTheSharedWeights) {
  for (const bool tied : {true, false}) {
    const ModelConfig config{.layers = 3, .width = 48, .heads = 4, .vocab = 77, .context = 20, .tied = tied};
    const Model model = model_of(config);
    const std::vector<planner::LayerShape> shapes = planner::shapes_of(model);
    double once = 0;
    for (std::size_t i = 0; i < model.size(); ++i) {
      const bool end = i == 0 || i + 1 == model.size();
      EXPECT_EQ(shapes[i].tied, tied && end ? 77 * 48 : 0) << model[i].kind;
      EXPECT_EQ(shapes[i].parameters, parameter_count(model[i]));
      once += shapes[i].parameters;
    }
    EXPECT_EQ(once - (tied ? 77 * 48 : 0), static_cast<double>(parameter_count(model)));
    ModelConfig bert = bert_base();
    bert.tied = tied;
    EXPECT_EQ(parameters_of(bert).at("head.weight").tied_to, tied ? "embedding.tokens" : "");
    EXPECT_EQ(planner::shapes_of(model_of(bert)).back().tied, tied ? 30522.0 * 768 : 0);
  }
}

TEST(Families, MayHaveMorePositionsThanTheContext) {
  for (const char* family : {"gpt", "bert"}) {
    ModelConfig config{.family = family, .context = 64};
    EXPECT_EQ(parameters_of(config).at("embedding.positions").shape.front(), 64);
    config.max_positions = 512;
    EXPECT_EQ(parameters_of(config).at("embedding.positions").shape.front(), 512);
  }
}

TEST(Families, LayersTakeTheFieldsThatTheyRead) {
  const auto taken = [](const ModelConfig& config, const std::string& kind) {
    BatchFields fields;
    for (const Layer& layer : model_of(config)) {
      if (layer.kind == kind) fields = fields | layer.takes;
    }
    return fields;
  };
  const ModelConfig gpt = gpt_medium();
  EXPECT_EQ(taken(gpt, "embedding"), BatchFields{Field::Tokens});
  EXPECT_EQ(taken(gpt, "head"), kTokenLoss);
  const int layers = static_cast<int>(model_of(gpt).size());
  EXPECT_TRUE(taken_by(model_of(gpt), 1, layers - 1).empty());
  EXPECT_EQ(taken_by(model_of(gpt), 0, layers).count(3, 8), 2 * 3 * 8 + 1);
  ModelConfig bert = bert_base();
  EXPECT_EQ(taken(bert, "embedding"), (BatchFields{Field::Tokens, Field::TokenTypes}));
  EXPECT_EQ(taken(bert, "attention_out"), BatchFields{Field::Lengths});
  for (const char* kind : {"attention_in", "mlp_down", "transform"}) EXPECT_TRUE(taken(bert, kind).empty());
  EXPECT_EQ(taken(bert, "head"), kTokenLoss);
  EXPECT_EQ(taken(bert_base(ModelHead::Classification), "head"), kSequenceLoss);
  EXPECT_EQ(taken(bert_base(ModelHead::Regression), "head"), kRegressionLoss);
  bert.next_sentence = true;
  EXPECT_EQ(taken(bert, "head"), kTokenAndSequenceLoss);
  bert.padding = false;
  EXPECT_TRUE(taken(bert, "attention_out").empty());
  ModelConfig llama = one_billion();
  llama.head = ModelHead::Classification;
  llama.num_labels = 3;
  EXPECT_EQ(taken(llama, "head"), (kSequenceLoss | BatchFields{Field::Lengths}));
  EXPECT_EQ(model_of(llama).back().parameters.back().shape, (std::vector<std::int64_t>{3, 2048}));
  EXPECT_EQ(model_of(llama).back().parameters.back().tied_to, "");
  llama.head = ModelHead::Regression;
  EXPECT_EQ(taken(llama, "head"), (kRegressionLoss | BatchFields{Field::Lengths}));
  EXPECT_EQ(model_of(llama).back().parameters.back().shape, (std::vector<std::int64_t>{1, 2048}));
}

TEST(Families, DocumentsNeedPositionsInAttentionAndLearnedEmbedding) {
  for (const char* family : {"gpt", "llama"}) {
    for (const Layer& layer : model_of({.family = family, .reset_documents = true})) {
      const bool learned = family == std::string("gpt") && layer.kind == "embedding";
      EXPECT_EQ(layer.takes.has(Field::Positions), learned || layer.kind == "attention_out") << layer.kind;
    }
    for (const Layer& layer : model_of({.family = family}))
      EXPECT_FALSE(layer.takes.has(Field::Positions)) << layer.kind;
  }
}

TEST(Families, RefuseKeysAndHeadsOfOthers) {
  const auto only = [](const std::string& key, const std::string& value, const std::string& allowed,
                       const std::string& family) {
    return fmt::format("model.{} is {}; it must be {} where model.family is {}", key, value, allowed, family);
  };
  EXPECT_EQ(refusal({.kv_heads = 4}), only("kv_heads", "4", "0", "gpt"));
  EXPECT_EQ(refusal({.token_types = 3}), only("token_types", "3", "2", "gpt"));
  EXPECT_EQ(refusal({.next_sentence = true}), only("next_sentence", "true", "false", "gpt"));
  EXPECT_EQ(refusal({.rope_scaling = "linear"}), only("rope_scaling", "linear", "none", "gpt"));
  EXPECT_EQ(refusal({.family = "bert", .qk_norm = true}), only("qk_norm", "true", "false", "bert"));
  EXPECT_EQ(refusal({.family = "bert", .reset_documents = true}),
            only("reset_documents", "true", "false", "bert"));
  EXPECT_EQ(refusal({.family = "llama", .max_positions = 512}), only("max_positions", "512", "0", "llama"));
  EXPECT_EQ(refusal({.family = "llama", .padding = false}), only("padding", "false", "true", "llama"));
  EXPECT_EQ(refusal({.family = "llama", .dropout = 0.1}), only("dropout", "0.1", "0", "llama"));
  for (const auto& [family, wrong, language] : {std::tuple("gpt", ModelHead::MaskedLm, "causal_lm"),
                                                std::tuple("llama", ModelHead::MaskedLm, "causal_lm"),
                                                std::tuple("bert", ModelHead::CausalLm, "masked_lm")}) {
    EXPECT_EQ(refusal({.family = family, .head = wrong}),
              fmt::format("model.head is {}; where model.family is {} it must be {}, classification or "
                          "regression",
                          name(wrong), family, language));
  }
  EXPECT_EQ(refusal({.family = "bert", .head = ModelHead::Classification, .next_sentence = true}),
            "model.next_sentence is true, but model.head is classification; it must be masked_lm");
  EXPECT_EQ(refusal({.family = "gtp"}).find("model.family is 'gtp'; allowed: gpt"), 0u);
}

TEST(Families, RefuseDocumentsWithOtherHeadsAndAngles) {
  EXPECT_EQ(refusal({.head = ModelHead::Classification, .reset_documents = true}),
            "model.reset_documents is true; it must be false where model.head is classification, as a "
            "sequence is one document");
  ModelConfig scaled{.family = "llama", .reset_documents = true};
  scaled.rope_original_context = 64;
  scaled.rope_scaling = "llama3";
  EXPECT_EQ(refusal(scaled), "");
  scaled.rope_scaling = "dynamic";
  EXPECT_EQ(refusal(scaled),
            "model.reset_documents is true; it must be false where model.rope_scaling is dynamic");
}

TEST(Llama, DerivesOpenSizes) {
  const ModelConfig config{.family = "llama", .width = 768, .heads = 12};
  EXPECT_EQ(kv_heads(config), 12);
  EXPECT_EQ(head_size(config), 64);
  EXPECT_EQ(hidden_size(config), 2048);
  EXPECT_EQ(hidden_size({.width = 770}), 2304);
}

TEST(Llama, RefusesHeadsOfOddSize) {
  ModelConfig config = {.family = "llama", .width = 30, .heads = 2};
  EXPECT_EQ(
      refusal(config),
      "attention heads have size 15 (model.width / model.heads); for the rotary embedding it must be even");
  config.head_size = 7;
  EXPECT_EQ(refusal(config),
            "attention heads have size 7 (model.head_size); for the rotary embedding it must be even");
}

TEST(Llama, AnglesOfATextDoNotDependOnItsBatch) {
  ModelConfig config = one_billion();
  config.rope_scaling = "dynamic";
  config.rope_factor = 2;
  config.rope_original_context = config.context - 1;
  EXPECT_EQ(refusal(config), "");
  config.head = ModelHead::Regression;
  EXPECT_EQ(
      refusal(config),
      fmt::format("model.context is {}; where model.rope_scaling is dynamic and model.head is regression "
                  "it must be at most model.rope_original_context, which is {}, as texts differ in length",
                  config.context, config.context - 1));
  config.rope_original_context = config.context;
  EXPECT_EQ(refusal(config), "");
}

}  // namespace
}  // namespace twobw::architecture
