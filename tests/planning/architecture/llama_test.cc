// The description of Llama and Qwen; what their layers keep is held against a profile in
// tests/app/measure/profiler_test.cc.
#include <gtest/gtest.h>

#include <map>
#include <numbers>

#include "core/base/error.h"
#include "planning/architecture/families.h"
#include "planning/architecture/llama.h"
#include "planning/architecture/rotary.h"

namespace twobw::architecture {
namespace {

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

std::string refusal(const ModelConfig& config) {
  try {
    model_of(config);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(DescribedLlama, HasThePublishedNumberOfParameters) {
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

// Two operations a parameter and token in the forward; the embedding has none, and attention comes on top.
TEST(DescribedLlama, CountsTheUsualNumberOfOperations) {
  ModelConfig config = one_billion();
  config.tied = false;
  double flops = 0, parameters = 0;
  for (const Layer& layer : model_of(config)) {
    flops += layer.work({.context = 2048}).matrix_flops;
    if (layer.kind != "embedding") parameters += parameter_count(layer);
  }
  const double attention = 16 * 2.0 * 2048 * 2048 * 2048;
  EXPECT_NEAR(flops / (2 * parameters * 2048 + attention), 1, 0.002);
}

TEST(DescribedLlama, HalfThePrecisionIsAboutHalfTheBytes) {
  for (const Layer& layer : model_of(one_billion())) {
    const Work whole = layer.work({.context = 512, .element = 4}),
               half = layer.work({.context = 512, .element = 2});
    EXPECT_EQ(whole.matrix_flops, half.matrix_flops);
    EXPECT_EQ(whole.output, 2 * half.output);
    EXPECT_NEAR(whole.saved_bytes / half.saved_bytes, 2, 0.05) << layer.kind;
  }
}

// For optimizers that treat matrices as such.
TEST(DescribedLlama, QueriesKeysAndValuesAreMatricesOfTheirOwn) {
  std::map<std::string, std::vector<std::int64_t>> matrices;
  for (const Layer& layer : model_of(one_billion())) {
    for (const Parameter& parameter : layer.parameters) matrices[parameter.name] = parameter.matrices;
  }
  using Rows = std::vector<std::int64_t>;
  EXPECT_EQ(matrices.at("blocks.3.attention.qkv.weight"), (Rows{2048, 512, 512}));
  EXPECT_EQ(matrices.at("blocks.3.attention.out.weight"), (Rows{2048}));
  EXPECT_EQ(matrices.at("blocks.3.mlp.gate_up.weight"), (Rows{8192, 8192}));
  EXPECT_EQ(matrices.at("blocks.3.mlp.down.weight"), (Rows{2048}));
  EXPECT_EQ(matrices.at("head.weight"), Rows());
  EXPECT_EQ(matrices.at("head.norm.weight"), Rows());
}

TEST(DescribedLlama, SizesThatAreLeftOpen) {
  const ModelConfig config{.family = "llama", .width = 768, .heads = 12};
  EXPECT_EQ(kv_heads(config), 12);
  EXPECT_EQ(head_size(config), 64);
  EXPECT_EQ(hidden_size(config), 2048);
  EXPECT_EQ(hidden_size({.width = 770}), 2304);
}

TEST(DescribedLlama, WhatItCannotBeIsRefused) {
  ModelConfig config = one_billion();
  config.dropout = 0.1;
  EXPECT_EQ(refusal(config), "model.dropout is 0.1; it must be 0 where model.family is llama");
  config = {.family = "llama", .width = 30, .heads = 2};
  EXPECT_EQ(
      refusal(config),
      "attention heads have size 15 (model.width / model.heads); for the rotary embedding it must be even");
  config.head_size = 7;
  EXPECT_EQ(refusal(config),
            "attention heads have size 7 (model.head_size); for the rotary embedding it must be even");
}

TEST(DescribedLlama, AnglesOfTextsDoNotDependOnTheirBatch) {
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

TEST(DescribedLlama, TellsTheClassOrTheNumberOfASequence) {
  ModelConfig config = one_billion();
  config.head = ModelHead::Classification;
  config.labels = 3;
  const Layer head = model_of(config).back();
  EXPECT_EQ(head.parameters.back().shape, (std::vector<std::int64_t>{3, 2048}));
  EXPECT_EQ(head.parameters.back().tied_to, "");
  EXPECT_EQ(head.takes, (kSequenceLoss | BatchFields{Field::Lengths}));
  config.head = ModelHead::Regression;
  EXPECT_EQ(model_of(config).back().parameters.back().shape, (std::vector<std::int64_t>{1, 2048}));
  EXPECT_EQ(model_of(config).back().takes, (kRegressionLoss | BatchFields{Field::Lengths}));
  config.head = ModelHead::MaskedLm;
  EXPECT_EQ(refusal(config),
            "model.head is masked_lm; where model.family is llama it must be causal_lm, classification or "
            "regression");
}

TEST(DescribedLlama, ItsKeysAreRefusedInAGpt) {
  EXPECT_EQ(refusal({.kv_heads = 4}), "model.kv_heads is 4; it must be 0 where model.family is gpt");
  EXPECT_EQ(refusal({.qk_norm = true}), "model.qk_norm is true; it must be false where model.family is gpt");
  EXPECT_EQ(refusal({.rope_scaling = "linear"}),
            "model.rope_scaling is linear; it must be none where model.family is gpt");
}

// Frequencies of heads of size 8, as a multiple of those that are not scaled.
std::vector<double> stretched(ModelConfig config, std::int64_t length) {
  config.head_size = 8;
  std::vector<double> ratios = rotary_frequencies(config, length);
  const std::vector<double> plain = rotary_frequencies({.head_size = 8}, length);
  EXPECT_EQ(plain, (std::vector<double>{1, 0.1, 0.01, 0.001}));
  for (std::size_t i = 0; i < 4; ++i) ratios[i] /= plain[i];
  return ratios;
}

TEST(Rotary, LinearScalingStretchesAllFrequencies) {
  for (const double ratio : stretched({.rope_scaling = "linear", .rope_factor = 4}, 100))
    EXPECT_DOUBLE_EQ(ratio, 0.25);
}

TEST(Rotary, DynamicScalingStretchesTheLowestAsTheSequenceAndTheHighestNotAtAll) {
  const ModelConfig config{.rope_scaling = "dynamic", .rope_factor = 1, .rope_original_context = 100};
  EXPECT_EQ(stretched(config, 100), std::vector<double>(4, 1));
  const std::vector<double> ratios = stretched(config, 300);
  EXPECT_DOUBLE_EQ(ratios[0], 1);
  EXPECT_NEAR(ratios[3], 1.0 / 3, 1e-12);
}

TEST(Rotary, Llama3ScalingKeepsWhatTurnsOftenAndStretchesWhatHardlyTurns) {
  const ModelConfig config{.rope_scaling = "llama3",
                           .rope_factor = 8,
                           .rope_low_freq_factor = 1,
                           .rope_high_freq_factor = 4,
                           // 25, 2.5, 0.25 and 0.025 turns
                           .rope_original_context = static_cast<int>(25 * 2 * std::numbers::pi)};
  const std::vector<double> ratios = stretched(config, 100);
  EXPECT_EQ(ratios[0], 1);
  EXPECT_NEAR(ratios[1], 0.5 + 0.5 / 8, 2e-3);
  EXPECT_EQ(ratios[2], 1.0 / 8);
  EXPECT_EQ(ratios[3], 1.0 / 8);
}

}  // namespace
}  // namespace twobw::architecture
