#include "engine/data/tokens.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "tests/engine/data/microbatches.h"

namespace twobw::data {
namespace {

using at::Tensor;
using Row = std::vector<std::int64_t>;

// A file with the given bytes, gone with the test.
class File {
 public:
  explicit File(const std::string& content)
      : path_(testing::TempDir() + "twobw_tokens_test_" + std::to_string(getpid())) {
    std::ofstream(path_, std::ios::binary) << content;
  }
  ~File() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Bytes 0, 1, 2, ...: a token is its own position.
std::string counting(int size) {
  std::string text;
  for (int i = 0; i < size; ++i) text += static_cast<char>(i);
  return text;
}

Row row(const Tensor& tokens, int index) {
  const Tensor one = tokens[index].contiguous();
  return {one.data_ptr<std::int64_t>(), one.data_ptr<std::int64_t>() + one.numel()};
}

bool same(const Batch& a, const Batch& b) {
  return at::equal(a[Field::Tokens], b[Field::Tokens]) && at::equal(a[Field::Targets], b[Field::Targets]);
}

TEST(Bytes, AreTokensAndTheTargetsAreOnePlaceOn) {
  const File file(counting(100));
  const auto source = open_text(file.path(), 256, 8);
  for (const Batch& sample : {source->random({.key = 1}, 3, 8), source->sequential(2, 3, 8)}) {
    EXPECT_EQ(sample[Field::Tokens].sizes(), (std::vector<std::int64_t>{3, 8}));
    EXPECT_EQ(sample[Field::Tokens].scalar_type(), at::kLong);
    EXPECT_TRUE(at::equal(sample[Field::Targets], sample[Field::Tokens] + 1));
    EXPECT_TRUE(at::equal(sample[Field::Tokens].narrow(1, 1, 7), sample[Field::Tokens].narrow(1, 0, 7) + 1));
  }
}

TEST(Bytes, AboveAsciiAreTokensToo) {
  const File file("\xff\xfe\x80");
  const Batch sample = open_text(file.path(), 256, 2)->sequential(0, 1, 2);
  EXPECT_EQ(row(sample[Field::Tokens], 0), (Row{255, 254}));
  EXPECT_EQ(row(sample[Field::Targets], 0), (Row{254, 128}));
}

TEST(Bytes, TheSameKeyChoosesTheSameWindows) {
  const File file(counting(200));
  const auto source = open_text(file.path(), 256, 8);
  const auto again = open_text(file.path(), 256, 8);
  EXPECT_TRUE(same(source->random({.key = 1}, 4, 8), source->random({.key = 1}, 4, 8)));
  EXPECT_TRUE(same(source->random({.key = 1}, 4, 8), again->random({.key = 1}, 4, 8)));
  EXPECT_FALSE(same(source->random({.key = 1}, 4, 8), source->random({.key = 2}, 4, 8)));
  const Batch sample = source->random({.key = 1}, 4, 8);
  EXPECT_NE(row(sample[Field::Tokens], 0), row(sample[Field::Tokens], 1));  // rows are drawn apart
}

TEST(Bytes, RandomWindowsReachFromTheFirstByteToTheLast) {
  const File file(counting(12));
  const auto source = open_text(file.path(), 256, 8);
  std::set<std::int64_t> starts;
  for (std::uint64_t key = 0; key < 100; ++key)
    starts.insert(row(source->random({.key = key}, 1, 8)[Field::Tokens], 0)[0]);
  EXPECT_EQ(starts, (std::set<std::int64_t>{0, 1, 2, 3}));  // 3 + 8 is the last target
}

TEST(Bytes, SequentialWindowsFollowOneAnotherAndWrap) {
  const File file(counting(16));  // three windows of four: a fourth would lack its last target
  const auto source = open_text(file.path(), 256, 4);
  const Batch first = source->sequential(0, 2, 4), second = source->sequential(1, 2, 4);
  EXPECT_EQ(row(first[Field::Tokens], 0), (Row{0, 1, 2, 3}));
  EXPECT_EQ(row(first[Field::Tokens], 1), (Row{4, 5, 6, 7}));
  EXPECT_EQ(row(second[Field::Tokens], 0), (Row{8, 9, 10, 11}));
  EXPECT_EQ(row(second[Field::Targets], 0), (Row{9, 10, 11, 12}));
  EXPECT_EQ(row(second[Field::Tokens], 1), (Row{0, 1, 2, 3}));  // wrapped around
  EXPECT_TRUE(same(source->sequential(3, 2, 4), first));
}

TEST(Synthetic, DependsOnTheKeyAlone) {
  const auto one = open_text("synthetic", 64, 16);
  const auto two = open_text("synthetic", 64, 16);
  EXPECT_TRUE(same(one->random({.key = 5}, 4, 16), two->random({.key = 5}, 4, 16)));
  EXPECT_FALSE(same(one->random({.key = 5}, 4, 16), one->random({.key = 6}, 4, 16)));
  EXPECT_TRUE(same(one->sequential(5, 4, 16), two->sequential(5, 4, 16)));
  EXPECT_FALSE(same(one->sequential(5, 4, 16), one->sequential(6, 4, 16)));
  EXPECT_EQ(one->describe(), "synthetic tokens below 64");
}

TEST(Synthetic, TokensAreBelowTheVocabularyAndTargetsOnePlaceOn) {
  for (int vocab : {1, 2, 64, 50'257}) {
    const Batch sample = open_text("synthetic", vocab, 16)->random({.key = 1}, 8, 16);
    EXPECT_GE(sample[Field::Tokens].min().item<std::int64_t>(), 0);
    EXPECT_LT(sample[Field::Tokens].max().item<std::int64_t>(), vocab);
    EXPECT_LT(sample[Field::Targets].max().item<std::int64_t>(), vocab);
    EXPECT_TRUE(at::equal(sample[Field::Targets].narrow(1, 0, 15), sample[Field::Tokens].narrow(1, 1, 15)));
  }
}

}  // namespace
}  // namespace twobw::data
