// Token files as a source of training: all windows once an epoch, in an order that the layout does not
// change.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "core/base/config.h"
#include "engine/data/order.h"
#include "engine/data/tokens.h"
#include "tests/engine/data/microbatches.h"
#include "tests/text/corpus/testing.h"

namespace twobw::data {
namespace {

using corpus::testing::Folder;
using corpus::testing::has;
using corpus::testing::Index;
using corpus::testing::write_counting;

constexpr int kVocab = 1000, kLength = 8;

class TokenFiles : public ::testing::Test {
 protected:
  // 21 windows of 8, and a remainder that fills none.
  TokenFiles() { write_counting(folder_, "x", {50, 1, 0, 70, 54}); }

  std::unique_ptr<Source> open(const std::string& name = "x", int vocab = kVocab,
                               int length = kLength) const {
    return open_text(folder_.file(name), vocab, length);
  }
  std::string refusal(const std::string& name, int vocab = kVocab, int length = kLength) const {
    return error_of([&] { open(name, vocab, length); });
  }

  Folder folder_;
};

constexpr std::int64_t kWindows = 21;

// The index of each row's window.
std::vector<std::int64_t> windows_in(const at::Tensor& tokens) {
  std::vector<std::int64_t> found;
  for (std::int64_t row = 0; row < tokens.size(0); ++row) {
    const auto first = tokens[row][0].item<std::int64_t>();
    EXPECT_EQ(first % kLength, 0);
    found.push_back(first / kLength);
  }
  return found;
}

// The windows of the first updates, replica after replica.
std::vector<std::int64_t> trained(const Source& source, int replicas, int m, int b, int updates,
                                  std::uint64_t seed = 0) {
  Config config;
  config.model.context = kLength;
  config.pipeline.replicas = replicas;
  config.pipeline.microbatches = m;
  config.pipeline.microbatch = b;
  config.train.seed = seed;
  std::vector<std::int64_t> order;
  for_each_microbatch(config, source, kText, updates, [&](const Batch& batch) {
    const auto rows = windows_in(batch[Field::Tokens]);
    order.insert(order.end(), rows.begin(), rows.end());
  });
  return order;
}

std::vector<std::int64_t> epoch(const std::vector<std::int64_t>& order, std::int64_t number) {
  return {order.begin() + number * kWindows, order.begin() + (number + 1) * kWindows};
}

TEST_F(TokenFiles, WindowsRunOnAcrossDocumentsAndTargetsAreOnePlaceOn) {
  const auto source = open();
  for (const Batch& sample :
       {source->random({.seed = 1, .first = 3}, 4, kLength), source->sequential(1, 4, kLength)}) {
    EXPECT_EQ(sample[Field::Tokens].sizes(), (std::vector<std::int64_t>{4, kLength}));
    EXPECT_TRUE(at::equal(sample[Field::Targets], sample[Field::Tokens] + 1));
    EXPECT_TRUE(at::equal(sample[Field::Tokens].narrow(1, 1, kLength - 1),
                          sample[Field::Tokens].narrow(1, 0, kLength - 1) + 1));
  }
}

TEST_F(TokenFiles, ValidationGoesThroughTheWindowsInOrderAndWraps) {
  const auto source = open();
  EXPECT_EQ(windows_in(source->sequential(0, 4, kLength)[Field::Tokens]),
            (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(windows_in(source->sequential(5, 4, kLength)[Field::Tokens]),
            (std::vector<std::int64_t>{20, 0, 1, 2}));
}

// 8 sequences an update do not divide the 21 windows: updates and microbatches lie in two epochs.
TEST_F(TokenFiles, TheLayoutDoesNotShowInTheOrder) {
  const auto source = open();
  constexpr int kUpdates = 16;
  const auto order = trained(*source, 1, 1, 8, kUpdates);
  for (std::int64_t number = 0; number < 6; ++number) {
    auto one = epoch(order, number);
    std::sort(one.begin(), one.end());
    EXPECT_EQ(std::unique(one.begin(), one.end()), one.end());
  }
  for (const auto& [replicas, m, b] : std::vector<std::array<int, 3>>{
           {1, 8, 1}, {1, 4, 2}, {1, 2, 4}, {2, 4, 1}, {2, 1, 4}, {4, 2, 1}, {8, 1, 1}}) {
    EXPECT_EQ(trained(*source, replicas, m, b, kUpdates), order) << replicas << ' ' << m << ' ' << b;
  }
}

TEST_F(TokenFiles, AnySequenceIsFoundWithoutThoseBefore) {
  const auto source = open();
  const auto order = trained(*source, 1, 1, 8, 10);
  for (std::int64_t i = 79; i >= 0; --i) {
    EXPECT_EQ(windows_in(source->random({.first = i}, 1, kLength)[Field::Tokens]).front(),
              order[static_cast<std::size_t>(i)]);
  }
  EXPECT_LT(window_of(0, kWindows, std::int64_t{1} << 50), kWindows);
}

TEST_F(TokenFiles, AreNamedByPrefixOrByEitherFile) {
  for (const char* name : {"x", "x.bin", "x.idx"}) {
    EXPECT_EQ(open(name)->describe(), folder_.file(name) + " (175 tokens in 5 documents)");
    EXPECT_TRUE(names_token_file(folder_.file(name)));
  }
  std::filesystem::create_directory(folder_.file("x"));  // a run's, perhaps
  EXPECT_TRUE(names_token_file(folder_.file("x")));
  folder_.write("text", std::string(100, 'x'));
  folder_.write("text.idx", "");
  EXPECT_FALSE(names_token_file(folder_.file("text")));  // a file with exactly this name has precedence
}

TEST_F(TokenFiles, TooShortOrTooWideAreRefusedInOneSentence) {
  EXPECT_EQ(refusal("x", kVocab, 174), "");
  EXPECT_EQ(refusal("x", kVocab, 175), "data.train is '" + folder_.file("x") +
                                           "' with 175 tokens; one window of model.context = 175 needs 176");
  EXPECT_EQ(refusal("x", 175), "");
  EXPECT_EQ(refusal("x", 174), "model.vocab is 174, but data.train '" + folder_.file("x") +
                                   "' holds token 174; it must be at least 175");
  Index index;
  index.type = 3;
  index.lengths = {9};
  index.pointers = {0};
  index.documents = {0, 1};
  folder_.write("signed.idx", index.bytes());
  folder_.write("signed.bin", std::string(18, '\xff'));
  EXPECT_EQ(refusal("signed"),
            "data.train '" + folder_.file("signed") + "' holds token -1; none may be below 0");
}

TEST_F(TokenFiles, DamagedOrHalfMissingAreRefusedInOneSentence) {
  folder_.write("lonely.bin", "some bytes");
  EXPECT_EQ(refusal("lonely.bin"), "data.train is '" + folder_.file("lonely.bin") + "': token index '" +
                                       folder_.file("lonely.idx") +
                                       "' cannot be read: No such file or directory");
  folder_.write("bad.idx", "MMIDIDX");
  folder_.write("bad.bin", "");
  EXPECT_TRUE(has(refusal("bad"), "data.train is '" + folder_.file("bad") + "': token index '"));
  write_counting(folder_, "y-train", {20});
  const std::string y = folder_.file("y");
  EXPECT_EQ(refusal("y"), "data.train is '" + y + "', which does not exist; prepare made '" + y +
                              "-train' and perhaps '" + y + "-validation'");
}

}  // namespace
}  // namespace twobw::data
