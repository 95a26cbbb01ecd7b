// Token files for BERT: windows between [CLS] and [SEP], with another mask in every epoch.
#include <gtest/gtest.h>

#include <map>

#include "core/base/config.h"
#include "engine/data/masking.h"
#include "engine/data/tokens.h"
#include "tests/text/corpus/testing.h"

namespace twobw::data {
namespace {
namespace masked_text {

using corpus::testing::Folder;
using corpus::testing::has;
using corpus::testing::Index;
using corpus::testing::put;

constexpr BatchFields kBert = {Field::Tokens, Field::Targets, Field::TokenTypes, Field::Lengths};
constexpr int kPad = 0, kUnknown = 1, kCls = 2, kSep = 3, kMask = 4, kVocab = 104, kContext = 10;

class MaskedText : public ::testing::Test {
 protected:
  // 12 windows of 8 tokens and a remainder of 3. Every second token continues a word, every 20th is unknown.
  MaskedText() {
    std::string vocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    for (int id = 5; id < kVocab; ++id) vocab += (id % 2 == 0 ? "##t" : "t") + std::to_string(id) + "\n";
    folder_.write("tokens/vocab.txt", vocab);
    Index index;
    index.lengths = {99};
    index.pointers = {0};
    index.documents = {0, 1};
    std::string bin;
    for (int i = 0; i < 99; ++i) put(bin, static_cast<std::uint16_t>(i % 20 == 19 ? kUnknown : i + 5));
    folder_.write("x.idx", index.bytes());
    folder_.write("x.bin", bin);
  }

  Config config() const {
    Config config;
    config.model.vocab = kVocab;
    config.model.context = kContext;
    config.model.head = ModelHead::MaskedLm;
    config.data.mask_probability = 0.5;
    config.data.tokenizer = folder_.file("tokens");
    config.data.train = {{.path = folder_.file("x")}};
    return config;
  }
  static std::unique_ptr<Source> open(const Config& config) {
    return open_source("data.train", config.data.train, config);
  }
  static std::string refused(const Config& config) {
    return error_of([&] { open(config); });
  }

  // The original tokens of a window: its targets, and its input elsewhere.
  static std::vector<std::int64_t> original(const Batch& batch, int row) {
    std::vector<std::int64_t> tokens;
    for (int i = 0; i < kContext; ++i) {
      const auto target = batch[Field::Targets][row][i].item<std::int64_t>();
      const auto seen = batch[Field::Tokens][row][i].item<std::int64_t>();
      tokens.push_back(target == kIgnored ? seen : target);
    }
    return tokens;
  }

  Folder folder_;
};

TEST_F(MaskedText, IsFramedAndFillsTheSequence) {
  const auto source = open(config());
  EXPECT_EQ(source->fields(), kBert);
  EXPECT_FALSE(source->is_dense());
  EXPECT_TRUE(has(source->describe(), "(99 tokens in 1 documents), masked"));
  const Batch batch = source->sequential(0, 12, kContext, kBert);
  EXPECT_TRUE(at::equal(batch[Field::TokenTypes], at::zeros({12, kContext}, at::kLong)));
  EXPECT_TRUE(at::equal(batch[Field::Lengths], at::full({12}, kContext, at::kLong)));
  for (int row = 0; row < 12; ++row) {
    std::vector<std::int64_t> expected = {kCls};
    for (int i = 8 * row; i < 8 * row + 8; ++i) expected.push_back(i % 20 == 19 ? kUnknown : i + 5);
    expected.push_back(kSep);
    EXPECT_EQ(original(batch, row), expected);
  }
  // Targets are neither special nor unknown tokens.
  const at::Tensor targets = batch[Field::Targets];
  EXPECT_TRUE(targets.eq(kIgnored).logical_or(targets.ge(5)).all().item<bool>());
  EXPECT_NEAR(targets.ge(0).sum().item<double>() / 92, 0.5, 0.15);
  // Only the requested fields.
  const Batch lengths = source->random({}, 2, kContext, {Field::Lengths, Field::LossScale});
  EXPECT_FALSE(lengths[Field::Tokens].defined());
  EXPECT_FALSE(lengths[Field::LossScale].defined());
  EXPECT_TRUE(lengths[Field::Lengths].defined());
}

TEST_F(MaskedText, IsMaskedAnewInEveryEpochAndTheSameForEveryStage) {
  const auto source = open(config());
  std::map<std::vector<std::int64_t>, std::vector<at::Tensor>> by_window;
  for (std::int64_t n = 0; n < 36; ++n) {  // three epochs
    const Batch batch = source->random({.seed = 3, .first = n}, 1, kContext, kBert);
    by_window[original(batch, 0)].push_back(batch[Field::Targets]);
    // A stage that asks for less sees the same.
    EXPECT_TRUE(
        at::equal(source->random({.seed = 3, .first = n}, 1, kContext, {Field::Targets})[Field::Targets],
                  batch[Field::Targets]));
    EXPECT_TRUE(
        at::equal(source->random({.seed = 3, .first = n}, 1, kContext, {Field::Tokens})[Field::Tokens],
                  batch[Field::Tokens]));
  }
  EXPECT_EQ(by_window.size(), 12u);
  for (const auto& [window, targets] : by_window) {
    ASSERT_EQ(targets.size(), 3u);
    EXPECT_FALSE(at::equal(targets[0], targets[1]) && at::equal(targets[1], targets[2]));
  }
  // Evaluations are the same every time.
  const Batch one = source->sequential(1, 4, kContext, kBert),
              again = source->sequential(4, 4, kContext, kBert);
  EXPECT_TRUE(at::equal(one[Field::Tokens], again[Field::Tokens]));
  EXPECT_TRUE(at::equal(one[Field::Targets], again[Field::Targets]));
}

TEST_F(MaskedText, MayBeBytesAndPartlyMadeUp) {
  Config bytes = config();
  bytes.data.tokenizer = "bytes";
  bytes.data.train = {{.path = folder_.write("text", std::string(25, 'x'))}};
  bytes.model.vocab = 257;
  Batch batch = open(bytes)->sequential(0, 2, kContext, kBert);
  EXPECT_EQ(original(batch, 1), std::vector<std::int64_t>(kContext, 'x'));
  EXPECT_TRUE(batch[Field::Tokens].eq(256).any().item<bool>());
  bytes.data.train.push_back({.path = "synthetic", .weight = 9});
  batch = open(bytes)->random({}, 30, kContext, kBert);
  EXPECT_TRUE(batch[Field::Tokens].eq(256).any().item<bool>());
  EXPECT_LT(batch[Field::Targets].max().item<std::int64_t>(), 256);
  EXPECT_GT(batch[Field::Targets].max().item<std::int64_t>(), 200);
}

TEST_F(MaskedText, IsRefusedInOneSentenceWhereItCannotBe) {
  Config bad = config();
  bad.data.tokenizer = "bytes";
  EXPECT_TRUE(has(refused(bad), "model.head is masked_lm, but data.tokenizer 'bytes' has no mask token"));
  bad.data.train = {{.path = folder_.write("text", std::string(25, 'x'))}};
  bad.model.vocab = 256;
  EXPECT_EQ(refused(bad),
            "model.vocab is 256, but with model.head: masked_lm the mask of bytes is token 256; it must be "
            "at least "
            "257");
  bad.model.vocab = 257;
  bad.data.whole_words = true;
  EXPECT_EQ(refused(bad),
            "data.whole_words is true, but data.tokenizer is bytes; it must be a WordPiece tokenizer");
  bad = config();
  bad.model.context = 2;
  EXPECT_EQ(refused(bad),
            "model.context is 2; with [CLS], [SEP] and a token between them it must be at least 3");
  bad = config();
  bad.model.context = 102;
  EXPECT_EQ(refused(bad), "data.train is '" + folder_.file("x") +
                              "' with 99 tokens; one window of model.context = 102 needs 100");
  bad.model.context = 101;
  EXPECT_EQ(refused(bad), "");
}

}  // namespace masked_text
}  // namespace
}  // namespace twobw::data
