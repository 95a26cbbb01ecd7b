#include <gtest/gtest.h>

#include "engine/data/sources.h"

namespace twobw::data {
namespace {
namespace sequences {

constexpr int kVocab = 64, kContext = 16;
constexpr BatchFields kAll = {Field::Tokens,  Field::Targets, Field::TokenTypes,
                              Field::Lengths, Field::Labels,  Field::Values};

ModelConfig model_of(ModelHead head = ModelHead::Auto) {
  return {.family = "bert", .vocab = kVocab, .context = kContext, .head = head, .num_labels = 5};
}

Batch sample(const ModelConfig& model, std::uint64_t key, BatchFields fields = kAll) {
  return make_synthetic_sequences(model)->random({.key = key}, 50, kContext, fields);
}

TEST(SyntheticSequences, EndBeforeTheContextAndHaveTwoParts) {
  const Batch batch = sample(model_of(), 1);
  const at::Tensor lengths = batch[Field::Lengths];
  EXPECT_EQ(lengths.max().item<std::int64_t>(), kContext);
  EXPECT_EQ(lengths.min().item<std::int64_t>(), kContext / 2);
  const at::Tensor behind = at::arange(kContext).ge(lengths.unsqueeze(1));
  for (const Field field : {Field::Tokens, Field::TokenTypes})
    EXPECT_EQ(batch[field].masked_select(behind).abs().sum().item<std::int64_t>(), 0);
  EXPECT_TRUE(batch[Field::Targets].masked_select(behind).lt(0).all().item<bool>());
  EXPECT_TRUE(batch[Field::TokenTypes].ge(0).all().item<bool>());
  EXPECT_EQ(batch[Field::TokenTypes].max().item<std::int64_t>(), 1);
  ModelConfig whole = model_of();
  whole.padding = false;
  EXPECT_TRUE(sample(whole, 1)[Field::Lengths].eq(kContext).all().item<bool>());
}

TEST(SyntheticSequences, MaskHidesTheTargets) {
  const Batch batch = sample(model_of(), 1);
  const at::Tensor counts = batch[Field::Targets].ge(0);
  EXPECT_GT(counts.sum().item<std::int64_t>(), 50);
  EXPECT_TRUE(at::equal(counts, batch[Field::Tokens].eq(kVocab - 1)));
  EXPECT_LT(batch[Field::Targets].max().item<std::int64_t>(), kVocab - 1);
  EXPECT_EQ(count_labels(batch), counts.sum().item<std::int64_t>() + 50 + 50);
}

TEST(SyntheticSequences, TheClassAndTheNumberFollowFromTheFirstToken) {
  const Batch batch = sample(model_of(ModelHead::Classification), 1);
  const at::Tensor first = batch[Field::Tokens].select(1, 0);
  EXPECT_TRUE(at::equal(batch[Field::Labels], first.remainder(5)));
  EXPECT_TRUE(at::equal(batch[Field::Values], first.to(at::kDouble) / kVocab));
  EXPECT_TRUE(batch[Field::Targets].lt(0).all().item<bool>());  // nothing is masked
}

TEST(SyntheticSequences, AreForAllHeadsButThatOfTheNextToken) {
  Config config;
  const auto described = [&] { return open_source("data.train", config.data.train, config)->describe(); };
  EXPECT_EQ(described(), "synthetic tokens below 8192");
  config.model.family = "bert";
  EXPECT_EQ(described(), "synthetic sequences of tokens below 8192, masked");
  config.model.head = ModelHead::Regression;
  EXPECT_EQ(described(), "synthetic sequences of tokens below 8192");
  config.data.train = {{.path = "synthetic"}, {.path = "synthetic", .weight = 2}};
  EXPECT_EQ(described(), "synthetic sequences of tokens below 8192");
}

}  // namespace sequences
}  // namespace
}  // namespace twobw::data
