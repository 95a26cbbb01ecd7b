// Sentence pairs: BERT predicts whether the second part follows the first.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

#include "core/base/config.h"
#include "engine/data/masking.h"
#include "engine/data/stream.h"
#include "engine/data/tokens.h"
#include "engine/runtime/microbatches.h"
#include "tests/text/corpus/testing.h"

namespace twobw::data {
namespace {
// Documents of 30, 1, 25, 2 and 13 tokens.
TEST(DocumentWindows, EndWhereDocumentsDo) {
  const DocumentWindows windows({30, 31, 56, 58, 71}, 10);
  EXPECT_EQ(windows.documents(), 4);
  std::vector<std::array<std::int64_t, 3>> found;
  for (std::int64_t i = 0; i < windows.count(); ++i) {
    const DocumentWindows::Window window = windows.window(i);
    found.push_back({window.begin, window.length, window.document});
  }
  const std::vector<std::array<std::int64_t, 3>> expected = {{0, 10, 0},  {10, 10, 0}, {20, 10, 0},
                                                             {31, 10, 1}, {41, 10, 1}, {51, 5, 1},
                                                             {56, 2, 2},  {58, 10, 3}, {68, 3, 3}};
  EXPECT_EQ(found, expected);
  EXPECT_EQ(windows.first(0), 0);
  EXPECT_EQ(windows.last(0), 3);
  EXPECT_EQ(windows.first(2), 6);
  EXPECT_EQ(windows.last(3), 9);
}

TEST(DocumentWindows, OfShortDocumentsThereAreNone) {
  EXPECT_EQ(DocumentWindows({1, 2, 3}, 4).count(), 0);
  EXPECT_EQ(DocumentWindows({1, 2, 3}, 4).documents(), 0);
  // A rest of one token is left out.
  EXPECT_EQ(DocumentWindows({5}, 4).count(), 1);
}

namespace pairs {

using corpus::testing::Folder;
using corpus::testing::has;
using corpus::testing::Index;
using corpus::testing::put;

constexpr BatchFields kFields = {Field::Tokens, Field::Targets, Field::TokenTypes, Field::Lengths,
                                 Field::Labels};
constexpr int kPad = 0, kCls = 2, kSep = 3, kFirst = 5, kContext = 13, kWindow = 10;
const std::vector<int> kDocuments = {30, 1, 0, 25, 2, 13};
constexpr int kWindows = 9;

class Pairs : public ::testing::Test {
 protected:
  // A token's id is its position in the stream.
  Pairs() {
    std::string vocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n", bin;
    Index index;
    index.documents = {0};
    int token = kFirst;
    for (const int length : kDocuments) {
      index.lengths.push_back(length);
      index.pointers.push_back(static_cast<std::int64_t>(bin.size()));
      index.documents.push_back(static_cast<std::int64_t>(index.lengths.size()));
      for (int i = 0; i < length; ++i) {
        put(bin, static_cast<std::uint16_t>(token));
        vocab += "t" + std::to_string(token++) + "\n";
      }
    }
    config_.model.family = "bert";
    config_.model.vocab = token;
    config_.model.context = kContext;
    config_.model.next_sentence = true;
    config_.data.mask_probability = 0.4;
    folder_.write("tokens/vocab.txt", vocab);
    folder_.write("x.idx", index.bytes());
    folder_.write("x.bin", bin);
    config_.data.tokenizer = folder_.file("tokens");
    config_.data.train = {{.path = folder_.file("x")}};
    config_.pipeline.microbatch = kWindows;
    config_.pipeline.microbatches = 4;
  }

  std::unique_ptr<Source> open() const { return open_source("data.train", config_.data.train, config_); }
  std::string refused() const {
    return error_of([&] { open(); });
  }

  // Places in the stream of a row's two parts.
  struct Parts {
    std::vector<std::int64_t> first, second;
  };
  static Parts parts_of(const Batch& batch, int row) {
    Parts parts;
    const auto length = batch[Field::Lengths][row].item<std::int64_t>();
    std::vector<std::int64_t> tokens;
    for (int i = 0; i < kContext; ++i) {
      const auto seen = batch[Field::Tokens][row][i].item<std::int64_t>();
      const auto target = batch[Field::Targets][row][i].item<std::int64_t>();
      tokens.push_back(target == kIgnored ? seen : target);
      EXPECT_TRUE(i < length || seen == kPad);
    }
    EXPECT_EQ(tokens.front(), kCls);
    EXPECT_EQ(tokens[static_cast<std::size_t>(length - 1)], kSep);
    const auto cut = std::ranges::find(tokens, kSep) - tokens.begin();
    for (std::int64_t i = 0; i < kContext; ++i) {
      EXPECT_EQ(batch[Field::TokenTypes][row][i].item<std::int64_t>(), i > cut && i < length ? 1 : 0);
      if (i == 0 || i == cut || i >= length - 1) continue;
      (i < cut ? parts.first : parts.second).push_back(tokens[static_cast<std::size_t>(i)] - kFirst);
    }
    return parts;
  }
  static int document_of(std::int64_t place) {
    int document = 0;
    for (std::int64_t end = kDocuments[0]; place >= end;
         end += kDocuments[static_cast<std::size_t>(document)])
      ++document;
    return document;
  }
  static bool is_stretch(const std::vector<std::int64_t>& places) {
    for (std::size_t i = 1; i < places.size(); ++i) {
      if (places[i] != places[i - 1] + 1) return false;
    }
    return !places.empty();
  }

  Folder folder_;
  Config config_;
};

TEST_F(Pairs, FollowOneAnotherOrAreOfTwoDocuments) {
  const auto source = open();
  EXPECT_EQ(source->fields(), kFields);
  EXPECT_FALSE(source->is_dense());
  EXPECT_TRUE(source->varies());
  EXPECT_TRUE(has(source->describe(), "masked, in pairs"));
  constexpr int kEpochs = 60;
  int random = 0;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const Batch batch = source->random({.seed = 3, .first = epoch * kWindows}, kWindows, kContext, kFields);
    std::set<std::int64_t> begins;
    for (int row = 0; row < kWindows; ++row) {
      const auto [first, second] = parts_of(batch, row);
      ASSERT_TRUE(is_stretch(first) && is_stretch(second));
      EXPECT_LE(first.size() + second.size(), kWindow);
      begins.insert(first.front());
      const auto label = batch[Field::Labels][row].item<std::int64_t>();
      if (label == 0) {
        EXPECT_EQ(second.front(), first.back() + 1);
        EXPECT_EQ(document_of(second.back()), document_of(first.front()));
      } else {
        EXPECT_EQ(label, 1);
        EXPECT_NE(document_of(second.front()), document_of(first.front()));
        EXPECT_EQ(document_of(second.front()), document_of(second.back()));
        ++random;
      }
    }
    EXPECT_EQ(begins, (std::set<std::int64_t>{0, 10, 20, 31, 41, 51, 56, 58, 68}));
  }
  EXPECT_NEAR(random / (1.0 * kEpochs * kWindows), 0.5, 0.07);
}

TEST_F(Pairs, AFieldIsTheSameWhateverElseIsAskedFor) {
  const auto source = open();
  const Batch all = source->random({.seed = 5, .first = 2}, 4, kContext, kFields);
  for (const Field field : architecture::kFields) {
    if (!kFields.has(field)) continue;
    const Batch one = source->random({.seed = 5, .first = 2}, 4, kContext, BatchFields{field});
    EXPECT_TRUE(at::equal(one[field], all[field])) << name(field);
  }
}

// The means of the loss are over targets and over labels, each by itself.
TEST_F(Pairs, HaveAScaleForTargetsAndOneForLabels) {
  const auto source = open();
  runtime::MicrobatchSource microbatches(config_, *source, *source, kFields | architecture::kScales);
  runtime::MicrobatchSource labels(config_, *source, *source, {Field::Labels, Field::LossScale});
  std::int64_t targets = 0;
  for (int k = 0; k < 4; ++k) {
    const Batch batch = microbatches.training(0, k).batch;
    targets += batch[Field::Targets].ge(0).sum().item<std::int64_t>();
    EXPECT_EQ(batch[Field::LabelScale].item<double>(), 1.0 / (4 * kWindows));
    EXPECT_EQ(labels.training(0, k).batch[Field::LossScale].item<double>(), 1.0 / (4 * kWindows));
  }
  EXPECT_NE(targets, 4 * kWindows);
  EXPECT_EQ(microbatches.training(0, 0).batch[Field::LossScale].item<double>(),
            1.0 / static_cast<double>(targets));
  EXPECT_EQ(microbatches.validation(0).batch[Field::LabelScale].item<double>(),
            1.0 / kWindows);  // each counts once
}

TEST_F(Pairs, WhatCannotBeIsRefusedInOneSentence) {
  EXPECT_EQ(refused(), "");
  config_.model.context = 4;
  EXPECT_EQ(refused(), "model.context is 4; with model.next_sentence it must be at least 5");
  config_.model.context = kContext;
  config_.model.padding = false;
  EXPECT_TRUE(has(refused(), "model.padding is false, but with model.next_sentence"));
  config_.model.padding = true;
  config_.model.token_types = 1;
  EXPECT_TRUE(has(refused(), "model.token_types is 1, but with model.next_sentence there are two"));
  config_.model.token_types = 2;
  Index index;
  index.lengths = {30};
  index.pointers = {0};
  index.documents = {0, 1};
  folder_.write("x.idx", index.bytes());
  EXPECT_EQ(refused(),
            "data.train is '" + folder_.file("x") +
                "' with 1 documents of two tokens or more; with model.next_sentence it must be token "
                "files with at least 2");
}

}  // namespace pairs
}  // namespace
}  // namespace twobw::data
