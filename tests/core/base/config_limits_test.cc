// Each whole number has an upper limit, and products of them fit 64 bits.
#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <string>

#include "config_testing.h"
#include "core/base/config_schema.h"
#include "planning/architecture/families.h"

namespace twobw {
namespace {

// The upper limit of a key of whole numbers; "" for other keys.
std::string most_of(const Key& key) {
  const std::string words = " and at most ";
  if (!key.allowed.starts_with("a whole number of at least ")) return "";
  return key.allowed.substr(key.allowed.find(words) + words.size());
}

// A configuration is accepted, or refused in words that have no negative number.
void expect_answer(const std::string& override) {
  const std::string sentence = override_refused(override);
  EXPECT_EQ(sentence.find(" -"), std::string::npos) << sentence;
  if (sentence != "not refused") {
    EXPECT_NE(sentence.find("; it must "), std::string::npos) << sentence;
  }
}

TEST(ConfigLimits, EveryWholeNumberHasOne) {
  int keys = 0;
  for (const Key& key : schema()) {
    const std::string most = most_of(key);
    if (most.empty()) continue;
    ++keys;
    const std::string more = std::to_string(std::stoull(most) + 1);  // of the seed: 0
    if (more != "0") {
      EXPECT_EQ(override_refused(key.path + "=" + more), key.path + " is " + more + " in override '" +
                                                             key.path + "=" + more + "'; it must be " +
                                                             key.allowed);
    }
    for (const char* value : {"2000000000", "2147483647", "9000000000000000000", "9223372036854775807",
                              "99999999999999999999", most.c_str()})
      expect_answer(key.path + "=" + value);
  }
  EXPECT_GT(keys, 25);
}

TEST(ConfigLimits, ProductsOfSizes) {
  EXPECT_EQ(
      refused("pipeline:\n  microbatch: 1000000\n  replicas: 3\n  microbatches: 334\n"),
      "pipeline.microbatches is 334 at x.yaml:4; it must make an update of at most 1000000000 sequences; "
      "with microbatches of 1000000 on 3 replicas it has 1002000000");
  EXPECT_EQ(
      refused("train: {updates: 1000000000000}\nmodel: {context: 1000000}\n"),
      "train.updates is 1000000000000 at x.yaml:1; it must be at most 288230376151 with 32000000 tokens in "
      "an update");
  EXPECT_EQ(refused("model: {head_size: 100000, heads: 101}\n"),
            "model.head_size is 100000 at x.yaml:1; it must be at most 99009 with 101 heads");
  EXPECT_EQ(refused("pipeline: {split: [2000000000, 2000000000]}\n"),
            "pipeline.split is [2000000000, 2000000000] at x.yaml:1; it must cover at most 1000000 layers");
}

TEST(ConfigLimits, ParametersOfTheLargestModelsAreCounted) {
  for (const char* family : {"gpt", "llama", "bert"}) {
    ModelConfig model{.family = family, .layers = kMostBlocks, .width = kWidest, .heads = kMostHeads};
    model.vocab = kMostTokens;
    model.context = kLongest;
    if (model.family == "llama") model.head_size = kWidestHidden / kMostHeads;
    if (model.family != "gpt") model.hidden = kWidestHidden;
    const architecture::Model layers = architecture::model_of(model);
    double count = 0;
    for (const architecture::Layer& layer : layers) count += architecture::parameter_count(layer);
    EXPECT_NEAR(static_cast<double>(architecture::parameter_count(layers)) / count, 1, 1e-3) << family;
    EXPECT_LT(count * sizeof(float), static_cast<double>(std::numeric_limits<std::int64_t>::max())) << family;
  }
}

}  // namespace
}  // namespace twobw
