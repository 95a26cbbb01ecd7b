// The names and shapes that parameters have in transformers.
#include "planning/architecture/huggingface/names.h"

#include <gtest/gtest.h>

#include "planning/architecture/families.h"

namespace twobw::architecture::huggingface {
namespace {

std::vector<std::string> names_of_all(const ModelConfig& config) {
  std::vector<std::string> names;
  for (const Layer& layer : model_of(config)) {
    for (const Parameter& parameter : layer.parameters) {
      if (!parameter.tied_to.empty()) continue;
      for (const Piece& piece : pieces_of(config, parameter)) names.push_back(piece.name);
    }
  }
  return names;
}

TEST(HuggingFaceNames, OfAGpt2) {
  const ModelConfig config = {.layers = 1, .width = 8, .heads = 2, .vocab = 17, .context = 4};
  const std::string block = "transformer.h.0.";
  EXPECT_EQ(
      names_of_all(config),
      (std::vector<std::string>{
          "transformer.wte.weight", "transformer.wpe.weight", block + "ln_1.weight", block + "ln_1.bias",
          block + "attn.c_attn.weight", block + "attn.c_attn.bias", block + "attn.c_proj.weight",
          block + "attn.c_proj.bias", block + "ln_2.weight", block + "ln_2.bias", block + "mlp.c_fc.weight",
          block + "mlp.c_fc.bias", block + "mlp.c_proj.weight", block + "mlp.c_proj.bias",
          "transformer.ln_f.weight", "transformer.ln_f.bias"}));
  const Piece qkv = pieces_of(config, {.name = "blocks.0.attention.qkv.weight", .shape = {24, 8}}).front();
  EXPECT_TRUE(qkv.transposed);
  EXPECT_EQ(qkv.shape, (std::vector<std::int64_t>{8, 24}));
  EXPECT_EQ(qkv.rows(), 24);
  EXPECT_TRUE(is_spare(config, "h.0.attn.bias"));
  EXPECT_FALSE(is_spare(config, "h.0.attn.c_attn.bias"));
  EXPECT_TRUE(is_spare(config, "lm_head.weight"));
}

TEST(HuggingFaceNames, OfABert) {
  ModelConfig config = {
      .family = "bert", .layers = 1, .width = 8, .heads = 2, .vocab = 17, .context = 4, .hidden = 10};
  const std::vector<std::string> below = [] {
    std::vector<std::string> names;
    for (const char* table : {"word_embeddings", "position_embeddings", "token_type_embeddings"})
      names.push_back(fmt::format("bert.embeddings.{}.weight", table));
    const auto add = [&](const std::string& part) {
      names.push_back(part + ".weight");
      names.push_back(part + ".bias");
    };
    add("bert.embeddings.LayerNorm");
    const std::string block = "bert.encoder.layer.0.";
    for (const char* kind : {"weight", "bias"}) {
      for (const char* part : {"query", "key", "value"})
        names.push_back(fmt::format("{}attention.self.{}.{}", block, part, kind));
    }
    for (const char* part : {"attention.output.dense", "attention.output.LayerNorm", "intermediate.dense",
                             "output.dense", "output.LayerNorm"})
      add(block + part);
    return names;
  }();
  const auto with_head = [&](const std::vector<std::string>& head) {
    std::vector<std::string> names = below;
    names.insert(names.end(), head.begin(), head.end());
    return names;
  };
  const std::vector<std::string> transform = {
      "cls.predictions.transform.dense.weight", "cls.predictions.transform.dense.bias",
      "cls.predictions.transform.LayerNorm.weight", "cls.predictions.transform.LayerNorm.bias"};
  std::vector<std::string> language = transform;
  language.push_back("cls.predictions.bias");
  EXPECT_EQ(names_of_all(config), with_head(language));
  EXPECT_TRUE(is_spare(config, "cls.predictions.decoder.weight"));
  EXPECT_TRUE(is_spare(config, "bert.embeddings.position_ids"));
  EXPECT_FALSE(is_spare(config, "bert.pooler.dense.weight"));
  EXPECT_TRUE(is_head_name(config, "bert.pooler.dense.weight"));
  EXPECT_TRUE(is_head_name(config, "cls.seq_relationship.bias"));
  EXPECT_FALSE(is_head_name(config, "bert.encoder.layer.0.output.dense.bias"));

  config.tied = false;
  language = transform;
  language.insert(language.end(), {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"});
  EXPECT_EQ(names_of_all(config), with_head(language));
  EXPECT_FALSE(is_spare(config, "cls.predictions.decoder.weight"));

  config.head = ModelHead::Classification;
  EXPECT_EQ(names_of_all(config), with_head({"bert.pooler.dense.weight", "bert.pooler.dense.bias",
                                             "classifier.weight", "classifier.bias"}));
  EXPECT_TRUE(is_of_head(config, {.name = "head.pooler.weight"}));
  EXPECT_FALSE(is_of_head(config, {.name = "blocks.0.attention.norm.weight"}));
}

TEST(HuggingFaceNames, OfOlderFiles) {
  EXPECT_EQ(former_name("bert.embeddings.LayerNorm.weight"), "bert.embeddings.LayerNorm.gamma");
  EXPECT_EQ(former_name("encoder.layer.0.output.LayerNorm.bias"), "encoder.layer.0.output.LayerNorm.beta");
  EXPECT_EQ(former_name("cls.predictions.decoder.bias"), "cls.predictions.bias");
  EXPECT_EQ(former_name("bert.encoder.layer.0.output.dense.bias"), "");
}

TEST(HuggingFaceNames, OfDecodersThatTellOfSequences) {
  for (const char* family : {"gpt", "llama"}) {
    const ModelConfig config = {.family = family, .head = ModelHead::Regression};
    EXPECT_EQ(names_of_all(config).back(), "score.weight");
    EXPECT_FALSE(is_spare(config, "lm_head.weight"));
    EXPECT_TRUE(is_head_name(config, "lm_head.weight"));
    EXPECT_TRUE(is_of_head(config, {.name = "head.weight"}));
    EXPECT_FALSE(is_of_head(config, {.name = "head.norm.weight"}));
  }
}

TEST(HuggingFaceNames, OfALlamaAreRowsOfOurs) {
  const ModelConfig config = {
      .family = "llama", .width = 8, .heads = 4, .tied = false, .kv_heads = 1, .head_size = 6};
  const std::vector<Piece> qkv = pieces_of(config, {.name = "blocks.7.attention.qkv.bias", .shape = {36}});
  ASSERT_EQ(qkv.size(), 3u);
  EXPECT_EQ(qkv[0].name, "model.layers.7.self_attn.q_proj.bias");
  EXPECT_EQ(qkv[2].name, "model.layers.7.self_attn.v_proj.bias");
  EXPECT_EQ(qkv[0].rows(), 24);
  EXPECT_EQ(qkv[1].rows(), 6);
  const std::vector<Piece> gate =
      pieces_of(config, {.name = "blocks.7.mlp.gate_up.weight", .shape = {10, 8}});
  ASSERT_EQ(gate.size(), 2u);
  EXPECT_EQ(gate[1].name, "model.layers.7.mlp.up_proj.weight");
  EXPECT_EQ(gate[1].shape, (std::vector<std::int64_t>{5, 8}));
  EXPECT_EQ(pieces_of(config, {.name = "head.weight", .shape = {17, 8}}).front().name, "lm_head.weight");
  EXPECT_FALSE(is_spare(config, "lm_head.weight"));
}

}  // namespace
}  // namespace twobw::architecture::huggingface
