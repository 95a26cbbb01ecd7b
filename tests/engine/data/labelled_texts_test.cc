// Texts with a class or a number, from tsv and jsonl files: special tokens, truncation, padding, and buckets
// by length.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>

#include "core/base/config.h"
#include "engine/data/tokens.h"
#include "tests/engine/data/microbatches.h"
#include "tests/text/corpus/testing.h"

namespace twobw::data {
namespace {
namespace labelled {

using corpus::testing::Folder;
using corpus::testing::has;
using Ids = std::vector<std::int64_t>;

constexpr BatchFields kClasses = {Field::Tokens, Field::TokenTypes, Field::Lengths, Field::Labels};
constexpr int kPad = 0, kCls = 2, kSep = 3, kA = 5;  // and 'b' is 6, ...

class Labelled : public ::testing::Test {
 protected:
  Labelled() {
    std::string vocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    for (char letter = 'a'; letter <= 'z'; ++letter) vocab += std::string{letter} + "\n";
    folder_.write("tokens/vocab.txt", vocab);
  }

  Config config(const std::string& path, int context = 8) const {
    Config config;
    config.model.vocab = 40;
    config.model.context = context;
    config.model.head = ModelHead::Classification;
    config.model.num_labels = 4;
    config.data.tokenizer = folder_.file("tokens");
    config.data.train = {{.path = path}};
    return config;
  }
  static std::unique_ptr<Source> open(const Config& config) {
    return open_source("data.train", config.data.train, config);
  }
  static std::string refused(const Config& config) {
    return error_of([&] { open(config); });
  }
  static Ids row(const at::Tensor& tensor, int index) {
    const at::Tensor one = tensor[index].contiguous();
    return {one.const_data_ptr<std::int64_t>(), one.const_data_ptr<std::int64_t>() + one.numel()};
  }

  Folder folder_;
};

TEST_F(Labelled, TextsStandBetweenClsAndSep) {
  const Config one = config(folder_.write("x.tsv", "text\tlabel\na b\t1\nc d e f g h i\t0\n\t3\n"));
  const auto source = open(one);
  EXPECT_EQ(source->fields(), kClasses);
  EXPECT_TRUE(source->is_dense());
  EXPECT_TRUE(source->varies());
  EXPECT_EQ(source->describe(), folder_.file("x.tsv") + " (3 rows)");
  const Batch batch = source->sequential(0, 3, 8, kClasses);
  EXPECT_EQ(row(batch[Field::Tokens], 0), (Ids{kCls, kA, kA + 1, kSep, kPad, kPad, kPad, kPad}));
  EXPECT_EQ(row(batch[Field::Tokens], 1), (Ids{kCls, kA + 2, kA + 3, kA + 4, kA + 5, kA + 6, kA + 7, kSep}));
  EXPECT_EQ(row(batch[Field::Tokens], 2), (Ids{kCls, kSep, kPad, kPad, kPad, kPad, kPad, kPad}));
  EXPECT_TRUE(at::equal(batch[Field::TokenTypes], at::zeros({3, 8}, at::kLong)));
  EXPECT_TRUE(at::equal(batch[Field::Lengths], at::tensor({4, 8, 2}, at::kLong)));
  EXPECT_TRUE(at::equal(batch[Field::Labels], at::tensor({1, 0, 3}, at::kLong)));
  EXPECT_FALSE(source->sequential(0, 3, 8, {Field::Labels})[Field::Tokens].defined());
}

TEST_F(Labelled, NamedClassesMayBeNumbersInTheFile) {
  Config named = config(folder_.write("x.tsv", "text\tlabel\na\t1\nb\tno\nc\t0\nd\tyes\n"));
  named.data.classes = {"no", "yes"};
  named.model.num_labels = 2;
  const Batch batch = open(named)->sequential(0, 4, 8, kClasses);
  EXPECT_TRUE(at::equal(batch[Field::Labels], at::tensor({1, 0, 0, 1}, at::kLong)));
}

TEST_F(Labelled, PairsAreShortenedAtTheirLongerEnd) {
  const std::string rows =
      "{\"p\": \"a b\", \"q\": \"c\", \"gold\": \"yes\"}\n"
      "{\"p\": \"a\", \"q\": \"b c d e f g\", \"gold\": \"no\"}\n"
      "{\"p\": \"a b c d e f\", \"q\": \"g h i j k\", \"gold\": \"no\"}\n"
      "{\"p\": \"a b c d\", \"q\": \"g h i j\", \"gold\": \"yes\"}\n";
  Config pairs = config(folder_.write("x.jsonl", rows));
  pairs.data.text = "p";
  pairs.data.pair = "q";
  pairs.data.label = "gold";
  pairs.data.classes = {"no", "yes"};
  pairs.model.num_labels = 2;
  const Batch batch = open(pairs)->sequential(0, 4, 8, kClasses);
  EXPECT_EQ(row(batch[Field::Tokens], 0), (Ids{kCls, 5, 6, kSep, 7, kSep, kPad, kPad}));
  EXPECT_EQ(row(batch[Field::TokenTypes], 0), (Ids{0, 0, 0, 0, 1, 1, 0, 0}));
  EXPECT_EQ(row(batch[Field::Tokens], 1), (Ids{kCls, 5, kSep, 6, 7, 8, 9, kSep}));
  EXPECT_EQ(row(batch[Field::TokenTypes], 1), (Ids{0, 0, 0, 1, 1, 1, 1, 1}));
  EXPECT_EQ(row(batch[Field::Tokens], 2), (Ids{kCls, 5, 6, 7, kSep, 11, 12, kSep}));
  EXPECT_EQ(row(batch[Field::Tokens], 3), (Ids{kCls, 5, 6, kSep, 11, 12, 13, kSep}));
  EXPECT_TRUE(at::equal(batch[Field::Lengths], at::tensor({6, 8, 8, 8}, at::kLong)));
  EXPECT_TRUE(at::equal(batch[Field::Labels], at::tensor({1, 0, 0, 1}, at::kLong)));
}

TEST_F(Labelled, NumbersAreForRegression) {
  Config one = config(folder_.write("x.jsonl",
                                    "{\"text\": \"a\", \"label\": 2.5}\n"
                                    "{\"text\": \"b\", \"label\": \"-1e3\"}\n"));
  one.model.head = ModelHead::Regression;
  one.model.num_labels = 2;
  const auto source = open(one);
  constexpr BatchFields kNumbers = {Field::Tokens, Field::TokenTypes, Field::Lengths, Field::Values};
  EXPECT_EQ(source->fields(), kNumbers);
  const Batch batch = source->sequential(0, 2, 8, kNumbers | kClasses);
  EXPECT_TRUE(at::equal(batch[Field::Values], at::tensor({2.5, -1000.0}, at::kDouble)));
  EXPECT_FALSE(batch[Field::Labels].defined());
  EXPECT_EQ(count_labels(batch), 2);
  one.data.train = {{.path = folder_.write("y.tsv", "text\tlabel\na\t1\nb\tnan\n")}};
  EXPECT_TRUE(has(refused(one), "y.tsv:3' has the label 'nan'; it must be a number"));
}

// A decoder's tokenizer has no [CLS] and [SEP]; the model classifies by the text's own last token.
TEST_F(Labelled, TextsStandAloneWhereTheTokenizerAddsNothing) {
  Config one = config(folder_.write("x.tsv", "text\tlabel\nab\t1\ncdefghijkl\t0\n"));
  one.data.tokenizer = "bytes";
  const Batch batch = open(one)->sequential(0, 2, 8, kClasses);
  EXPECT_EQ(row(batch[Field::Tokens], 0), (Ids{'a', 'b', 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(row(batch[Field::Tokens], 1), (Ids{'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j'}));
  EXPECT_TRUE(at::equal(batch[Field::Lengths], at::tensor({2, 8}, at::kLong)));
  one.data.pair = "other";
  EXPECT_EQ(refused(one),
            "data.pair is 'other', but data.tokenizer 'bytes' has no [CLS] and [SEP], which two texts stand "
            "between");
  one = config(folder_.write("x.tsv", "text\tlabel\nab\t1\n\t0\n"));
  one.data.tokenizer = "bytes";
  EXPECT_TRUE(has(refused(one), "x.tsv:3' has a text without a token; every text must have one"));
}

// 150 texts of 1 to 30 letters; the label is the row's number.
class ManyTexts : public Labelled {
 protected:
  static constexpr int kTexts = 150, kContext = 32;
  ManyTexts() {
    std::string rows = "text\tlabel\n";
    for (int i = 0; i < kTexts; ++i) {
      for (int letter = 0; letter <= i * 7 % 30; ++letter) rows += "a ";
      rows += fmt::format("\t{}\n", i);
    }
    folder_.write("x.tsv", rows);
  }

  Config layout(int replicas, int m, int b, int bucket) const {
    Config config = this->config(folder_.file("x.tsv"), kContext);
    config.model.num_labels = kTexts;
    config.pipeline.replicas = replicas;
    config.pipeline.microbatches = m;
    config.pipeline.microbatch = b;
    config.data.bucket = bucket;
    return config;
  }

  // Labels of the first updates, replica after replica.
  static Ids trained(const Config& config, int updates) {
    Ids order;
    for_each_microbatch(config, *open(config), kClasses, updates, [&](const Batch& batch) {
      const Ids labels = row(batch[Field::Labels].unsqueeze(0), 0);
      order.insert(order.end(), labels.begin(), labels.end());
    });
    return order;
  }
};

TEST_F(ManyTexts, EveryEpochHasEachOnceWithBucketsToo) {
  for (const int bucket : {0, 1, 4, 200}) {
    const Ids order = trained(layout(1, 5, 10, bucket), 9);  // three epochs
    std::vector<Ids> epochs;
    for (int epoch = 0; epoch < 3; ++epoch) {
      epochs.emplace_back(order.begin() + epoch * kTexts, order.begin() + (epoch + 1) * kTexts);
      Ids sorted = epochs.back();
      std::ranges::sort(sorted);
      for (int i = 0; i < kTexts; ++i) EXPECT_EQ(sorted[i], i);
    }
    EXPECT_NE(epochs[0], epochs[1]);
    EXPECT_NE(epochs[1], epochs[2]);
  }
}

TEST_F(ManyTexts, BucketsDoNotShowTheLayout) {
  const Ids order = trained(layout(1, 1, 16, 4), 25);
  for (const auto& [replicas, m, b] :
       std::vector<std::array<int, 3>>{{1, 16, 1}, {1, 4, 4}, {2, 4, 2}, {4, 2, 2}})
    EXPECT_EQ(trained(layout(replicas, m, b, 4), 25), order);
}

// On CPU cores, padding common to all sequences of a microbatch is cut.
TEST_F(ManyTexts, BucketsSparePadding) {
  std::map<int, std::int64_t> places;
  for (const int bucket : {0, 5}) {
    const Config config = layout(1, 3, 5, bucket);
    const auto source = open(config);
    runtime::MicrobatchSource microbatches(config, *source, *source, kClasses);
    for (int k = 0; k < 30; ++k) {
      const Batch batch = microbatches.training(0, k).batch;
      const auto longest = batch[Field::Lengths].max().item<std::int64_t>();
      const std::int64_t width = batch[Field::Tokens].size(1);
      EXPECT_EQ(width, std::min<std::int64_t>(kContext, (longest + 7) / 8 * 8));
      EXPECT_EQ(batch[Field::TokenTypes].size(1), width);
      places[bucket] += width;
    }
    const Batch tail = microbatches.training(0, 3).batch;
    for (int i = 0; i < 5; ++i) {  // nothing is lost
      const Ids tokens = row(tail[Field::Tokens], i);
      EXPECT_EQ(std::ranges::count(tokens, kSep), 1);
      EXPECT_EQ(std::ranges::find(tokens, kSep) - tokens.begin() + 1,
                row(tail[Field::Lengths].unsqueeze(0), 0)[i]);
    }
    // A stage that reads the tokens alone has as many places.
    runtime::MicrobatchSource first(config, *source, *source, {Field::Tokens});
    EXPECT_EQ(first.training(0, 3).batch[Field::Tokens].size(1), tail[Field::Tokens].size(1));
    EXPECT_FALSE(first.training(0, 3).batch[Field::Lengths].defined());
    // A GPU's tensors have one shape.
    Config on_gpu = config;
    on_gpu.devices = {"cuda:0"};
    runtime::MicrobatchSource whole(on_gpu, *source, *source, kClasses);
    EXPECT_EQ(whole.training(0, 3).batch[Field::Tokens].size(1), kContext);
    microbatches.keep_padding();
    EXPECT_EQ(microbatches.training(0, 3).batch[Field::Tokens].size(1), kContext);
  }
  EXPECT_LT(places[5], 0.8 * static_cast<double>(places[0]));
}

TEST_F(Labelled, WhatCannotBeIsRefusedInOneSentence) {
  const std::string path = folder_.write("x.tsv", "text\tlabel\na b\tmaybe\n");
  EXPECT_EQ(refused(config(path)), "data.train is '" + path + "': '" + path +
                                       ":2' is of class 'maybe'; it must be a whole number from 0 on, or "
                                       "data.classes must name it");
  Config named = config(path);
  named.data.classes = {"no", "yes"};
  EXPECT_EQ(refused(named),
            "data.train is '" + path + "': '" + path + ":2' is of class 'maybe', which data.classes has not");
  Config numbers = config(folder_.write("y.tsv", "text\tlabel\na\t0\nb\t1\n"));
  numbers.data.classes = {"1", "2"};
  EXPECT_TRUE(has(refused(numbers), "is of class '0', which data.classes has not"));
  numbers = config(folder_.write("y.tsv", "text\tlabel\na\t2\n"));
  numbers.data.classes = {"no", "yes"};
  EXPECT_TRUE(has(refused(numbers), "is of class '2', which data.classes has not"));
  EXPECT_TRUE(
      has(refused(config(folder_.write("y.tsv", "text\tlabel\na\t-1\n"))), "is of class '-1'; it must be"));
  EXPECT_TRUE(
      has(refused(config(folder_.write("y.tsv", "sentence\tlabel\na\t1\n"))), "has no column 'text'"));
  EXPECT_EQ(refused(config(folder_.write("y.tsv", "text\tlabel\n"))),
            "data.train is '" + folder_.file("y.tsv") + "', which has no rows");
  EXPECT_TRUE(has(refused(config(folder_.file("none.tsv"))), "No such file"));
  Config blended = config(folder_.write("y.tsv", "text\tlabel\na\t1\n"));
  blended.data.train.push_back({.path = "synthetic"});
  EXPECT_EQ(refused(blended),
            "data.train has synthetic among others; with model.head: classification it must be alone");
  EXPECT_EQ(refused(config(path, 2)),
            "model.context is 2; with the special tokens around a text it must be at least 3");
  Config pair = config(path, 4);
  pair.data.pair = "other";
  EXPECT_EQ(refused(pair),
            "model.context is 4; with the special tokens around two texts it must be at least 5");
  pair.model.token_types = 1;
  EXPECT_EQ(refused(pair), "model.token_types is 1, but with data.pair there are two; it must be at least 2");
}

}  // namespace labelled
}  // namespace
}  // namespace twobw::data
