#include "app/inference/sampler.h"

#include <gtest/gtest.h>
#include <memory>

#include <cmath>

#include "core/base/error.h"
#include "text/tokenizer/tokenizer.h"

namespace twobw::inference {
namespace {

std::vector<float> logits_of(const std::vector<double>& chances) {
  std::vector<float> logits;
  for (const double chance : chances) logits.push_back(static_cast<float>(std::log(chance)));
  return logits;
}

void expect_chances(const std::vector<double>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-6) << "token " << i;
}

const std::vector<double> kChances = {0.1, 0.4, 0.2, 0.3};

TEST(Sampler, TheLikeliestAtTemperatureZero) {
  const std::vector<float> logits = {1, 5, 5, 2};
  for (const double random : {0.0, 0.5, 0.999})
    EXPECT_EQ(choose_token(logits, {}, {.temperature = 0}, random), 1);
}

TEST(Sampler, TemperatureSharpens) {
  expect_chances(probabilities(logits_of(kChances), {}, {.temperature = 1}), kChances);
  const double sum = 0.01 + 0.16 + 0.04 + 0.09;
  expect_chances(probabilities(logits_of(kChances), {}, {.temperature = 0.5}),
                 {0.01 / sum, 0.16 / sum, 0.04 / sum, 0.09 / sum});
}

TEST(Sampler, TopKLeavesTheLikeliest) {
  expect_chances(probabilities(logits_of(kChances), {}, {.temperature = 1, .top_k = 2}),
                 {0, 4.0 / 7, 0, 3.0 / 7});
  expect_chances(probabilities(logits_of(kChances), {}, {.temperature = 1, .top_k = 9}), kChances);
}

TEST(Sampler, TopPLeavesTheFewestThatHaveIt) {
  const auto left = [](double p) {
    return probabilities(logits_of(kChances), {}, {.temperature = 1, .top_p = p});
  };
  expect_chances(left(0.3), {0, 1, 0, 0});
  expect_chances(left(0.65), {0, 4.0 / 7, 0, 3.0 / 7});
  expect_chances(left(0.75), {0, 4.0 / 9, 2.0 / 9, 3.0 / 9});
  expect_chances(left(1e-9), {0, 1, 0, 0});
}

TEST(Sampler, RepetitionsArePenalisedOnce) {
  const std::vector<float> logits = {2, -2, 1, 1};
  const std::vector<std::int64_t> history = {0, 1, 0, 1};
  const std::vector<double> chances =
      probabilities(logits, history, {.temperature = 1, .repetition_penalty = 2});
  const double e = std::exp(1.0), rare = std::exp(-4.0), sum = 3 * e + rare;
  expect_chances(chances, {e / sum, rare / sum, e / sum, e / sum});
  EXPECT_EQ(choose_token(logits, history, {.temperature = 0, .repetition_penalty = 4}, 0), 2);
}

TEST(Sampler, DrawsByTheSumOfChances) {
  const Sampling plain{.temperature = 1};
  const std::vector<float> logits = logits_of(kChances);
  EXPECT_EQ(choose_token(logits, {}, plain, 0.0), 0);
  EXPECT_EQ(choose_token(logits, {}, plain, 0.099), 0);
  EXPECT_EQ(choose_token(logits, {}, plain, 0.101), 1);
  EXPECT_EQ(choose_token(logits, {}, plain, 0.699), 2);
  EXPECT_EQ(choose_token(logits, {}, plain, 0.999999999), 3);
}

TEST(Sampler, RefusesWhatIsNotFinite) {
  const std::vector<float> logits = {0, NAN, 1};
  EXPECT_THROW(choose_token(logits, {}, {.temperature = 0}, 0), RunError);
  EXPECT_THROW(choose_token(logits, {}, {}, 0), RunError);
}

class TextStreamTest : public testing::Test {
 protected:
  // The pieces released after every byte, between bars.
  std::string shown(const std::string& text, std::vector<std::string> stops = {}) {
    TextStream stream(*tokenizer_, std::move(stops), true);
    std::string out;
    for (const char byte : text) out += stream.push(static_cast<unsigned char>(byte)) + "|";
    stopped_ = stream.stopped();
    return out + stream.finish();
  }

  std::unique_ptr<tokenizer::Tokenizer> tokenizer_ = tokenizer::load_tokenizer("bytes");
  bool stopped_ = false;
};

TEST_F(TextStreamTest, GivesOutWholeCharacters) {
  EXPECT_EQ(shown("aé!"), "a||é|!|");
  EXPECT_EQ(shown("\xF0\x9F\x98\x80"), "|||\xF0\x9F\x98\x80|");
}

TEST_F(TextStreamTest, WhatIsNoCharacterIsReplaced) {
  EXPECT_EQ(shown("a\xFF"
                  "b"),
            "a|\xEF\xBF\xBD|b|");
  EXPECT_EQ(shown("a\xC3"), "a||\xEF\xBF\xBD");
}

TEST_F(TextStreamTest, EndsBeforeAStop) {
  EXPECT_EQ(shown("ab\n\ncd", {"\n\n"}), "a|b|||||");
  EXPECT_TRUE(stopped_);
}

TEST_F(TextStreamTest, HoldsBackWhatMayBeginAStop) {
  EXPECT_EQ(shown("xENxEND", {"END"}), "x|||ENx||||");
  EXPECT_TRUE(stopped_);
  EXPECT_EQ(shown("xEN", {"END"}), "x|||EN");
  EXPECT_FALSE(stopped_);
}

TEST_F(TextStreamTest, TheFirstOfSeveralStops) {
  EXPECT_EQ(shown("a.b;c", {";", "b"}), "a|.||||");
  EXPECT_EQ(begun_stop("xab", {"abc", "b!"}), 2);
  EXPECT_EQ(begun_stop("xab", {"!"}), 0);
}

}  // namespace
}  // namespace twobw::inference
