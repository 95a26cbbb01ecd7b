// Classification and regression on texts of different lengths: the pipeline equals the oracle for any padding
// of its microbatches.
#include <gtest/gtest.h>

#include <cmath>

#include "app/train/verify.h"
#include "core/base/error.h"
#include "engine/device/device.h"
#include "engine/models/model.h"
#include "engine/runtime/setup.h"
#include "tests/text/corpus/testing.h"

namespace twobw::train {
namespace {
namespace classifying {

using architecture::Field;
using corpus::testing::Folder;

class Classifying : public ::testing::Test {
 protected:
  static constexpr int kClasses = 3;

  Classifying() {
    device::initialize();
    std::string vocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n", rows = "text\tother\tlabel\n";
    for (char letter = 'a'; letter <= 'z'; ++letter) vocab += std::string{letter} + "\n";
    for (int i = 0; i < 60; ++i) {
      for (int word = 0; word <= i * 7 % 20; ++word)
        rows += {static_cast<char>('a' + (i * 11 + word) % 26), ' '};
      rows += "\tx y\t" + std::to_string(i % kClasses) + "\n";
    }
    folder_.write("tokens/vocab.txt", vocab);
    config_.model = {.family = "bert", .layers = 2, .width = 12, .heads = 2, .vocab = 31, .context = 24};
    config_.model.head = ModelHead::Classification;
    config_.model.num_labels = kClasses;
    config_.data.tokenizer = folder_.file("tokens");
    config_.data.train = config_.data.validation = {{.path = folder_.write("x.tsv", rows)}};
    config_.pipeline.stages = 2;
    config_.pipeline.split = {5, 7};
    config_.pipeline.microbatch = 3;
    config_.pipeline.microbatches = 4;
    config_.optimizer.lr = 1e-2;
    config_.optimizer.warmup = 2;
    config_.train.updates = 6;
    config_.train.eval_every = 3;
    config_.train.eval_microbatches = 4;
  }

  void expect_exact() const {
    const Verification result = verify(config_);
    EXPECT_TRUE(result.equal) << result.difference << "\n" << to_yaml(config_);
    EXPECT_EQ(result.skipped, 0);
    EXPECT_TRUE(std::isfinite(result.final_loss));
  }

  Folder folder_;
  Config config_;
};

TEST_F(Classifying, PairsAreExact) {
  config_.data.pair = "other";
  config_.model.dropout = 0.1;
  for (const ScheduleKind schedule : {ScheduleKind::TwoBW, ScheduleKind::Flush}) {
    for (const int bucket : {0, 3}) {
      config_.pipeline.schedule = schedule;
      config_.pipeline.replicas = bucket == 0 ? 1 : 2;
      config_.data.bucket = bucket;
      expect_exact();
    }
  }
}

TEST_F(Classifying, EveryFamilyIsExact) {
  for (const char* family : {"bert", "gpt", "llama"}) {
    for (const ModelHead head : {ModelHead::Classification, ModelHead::Regression}) {
      config_.model.family = family;
      config_.model.head = head;
      expect_exact();
    }
  }
}

// A family that reads labels with any head.
architecture::Model describe_stubborn(const ModelConfig&) {
  return {{.kind = "head",
           .parameters = {{.name = "head", .shape = {2}}},
           .takes = architecture::kSequenceLoss | architecture::BatchFields{Field::Tokens}}};
}

TEST_F(Classifying, AModelThatReadsWhatIsNotThereIsRefused) {
  static const bool added = [] {
    models::add_family({.name = "stubborn", .describe = describe_stubborn},
                       [](const ModelConfig&, const architecture::Layer&) { return models::Forward(); });
    return true;
  }();
  ASSERT_TRUE(added);
  config_.model.family = "stubborn";
  config_.model.head = ModelHead::Regression;
  config_.pipeline.stages = 1;
  config_.pipeline.split = {1};
  EXPECT_EQ(
      error_of([&] { runtime::prepare(config_); }),
      "model.head is regression, whose data have no labels, but model.family stubborn reads them; choose "
      "another head");
  config_.model.head = ModelHead::Classification;
  EXPECT_EQ(error_of([&] { runtime::prepare(config_); }), "");
}

TEST_F(Classifying, BucketsAreForSequencesOfManyLengths) {
  config_.data.bucket = 4;
  EXPECT_EQ(error_of([&] { runtime::prepare(config_); }), "");
  config_.model.head = ModelHead::Auto;
  config_.data.train = config_.data.validation = {{.path = "synthetic"}};
  config_.pipeline.split = {5, 8};
  EXPECT_EQ(error_of([&] { runtime::prepare(config_); }),
            "data.bucket is 4, but with model.head: masked_lm all sequences have the same length; it must be "
            "0");
}

TEST_F(Classifying, TheTokenizerMustFitTheModel) {
  config_.data.tokenizer = "bytes";
  EXPECT_EQ(error_of([&] { runtime::prepare(config_); }),
            "model.vocab is 31, but data.tokenizer 'bytes' has 256 tokens; it must be at least 256");
  config_.data.train = config_.data.validation = {{.path = "synthetic"}};
  EXPECT_EQ(error_of([&] { runtime::prepare(config_); }), "");
}

}  // namespace classifying
}  // namespace
}  // namespace twobw::train
