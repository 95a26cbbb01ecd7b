#include <gtest/gtest.h>

#include "engine/data/sources.h"

namespace twobw::data {
namespace {
namespace sequences {

constexpr int kVocab = 64, kContext = 16;
constexpr BatchFields kAll = {Field::Tokens,  Field::Targets, Field::TokenTypes,
                              Field::Lengths, Field::Labels,  Field::Values};

ModelConfig model_of(ModelHead head = ModelHead::Auto) {
  return {.family = "bert", .vocab = kVocab, .context = kContext, .head = head, .labels = 5};
}

Batch sample(const ModelConfig& model, std::uint64_t key, BatchFields fields = kAll) {
  return make_synthetic_sequences(model)->random({.key = key}, 50, kContext, fields);
}

bool alike(const Batch& one, const Batch& other) {
  for (const Field field : architecture::kFields) {
    if (one[field].defined() && !at::equal(one[field], other[field])) return false;
  }
  return true;
}

TEST(SyntheticSequences, DependOnTheKeyAlone) {
  EXPECT_TRUE(alike(sample(model_of(), 5), sample(model_of(), 5)));
  EXPECT_FALSE(alike(sample(model_of(), 5), sample(model_of(), 6)));
  const auto source = make_synthetic_sequences(model_of());
  EXPECT_EQ(source->fields(), kAll);
  EXPECT_TRUE(alike(source->sequential(3, 4, kContext, kAll), source->sequential(3, 4, kContext, kAll)));
  EXPECT_FALSE(alike(source->sequential(3, 4, kContext, kAll), source->sequential(4, 4, kContext, kAll)));
}

// Stages ask for different fields of the same microbatch.
TEST(SyntheticSequences, AFieldIsTheSameWhateverElseIsAskedFor) {
  const Batch all = sample(model_of(), 1);
  for (const Field field : architecture::kFields) {
    if (!kAll.has(field)) continue;
    const Batch one = sample(model_of(), 1, BatchFields{field});
    for (const Field other : architecture::kFields) EXPECT_EQ(one[other].defined(), other == field);
    EXPECT_TRUE(at::equal(one[field], all[field])) << name(field);
  }
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

TEST(SyntheticSequences, AMaskHidesWhatIsToBeTold) {
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
