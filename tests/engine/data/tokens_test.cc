#include "engine/data/tokens.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "core/base/error.h"

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

std::string refusal(const std::string& path, int vocab, int length) {
  try {
    open_source("data.train", path, vocab, length);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

bool same(const Batch& a, const Batch& b) {
  return at::equal(a[Field::Tokens], b[Field::Tokens]) && at::equal(a[Field::Targets], b[Field::Targets]);
}

TEST(Bytes, AreTokensAndTheTargetsAreOnePlaceOn) {
  const File file(counting(100));
  const auto source = open_source("data.train", file.path(), 256, 8);
  for (const Batch& sample : {source->random({.key = 1}, 3, 8), source->sequential(2, 3, 8)}) {
    EXPECT_EQ(sample[Field::Tokens].sizes(), (std::vector<std::int64_t>{3, 8}));
    EXPECT_EQ(sample[Field::Tokens].scalar_type(), at::kLong);
    EXPECT_TRUE(at::equal(sample[Field::Targets], sample[Field::Tokens] + 1));
    EXPECT_TRUE(at::equal(sample[Field::Tokens].narrow(1, 1, 7), sample[Field::Tokens].narrow(1, 0, 7) + 1));
  }
}

TEST(Bytes, AboveAsciiAreTokensToo) {
  const File file("\xff\xfe\x80");
  const Batch sample = open_source("data.train", file.path(), 256, 2)->sequential(0, 1, 2);
  EXPECT_EQ(row(sample[Field::Tokens], 0), (Row{255, 254}));
  EXPECT_EQ(row(sample[Field::Targets], 0), (Row{254, 128}));
}

TEST(Bytes, TheSameKeyChoosesTheSameWindows) {
  const File file(counting(200));
  const auto source = open_source("data.train", file.path(), 256, 8);
  const auto again = open_source("data.train", file.path(), 256, 8);
  EXPECT_TRUE(same(source->random({.key = 1}, 4, 8), source->random({.key = 1}, 4, 8)));
  EXPECT_TRUE(same(source->random({.key = 1}, 4, 8), again->random({.key = 1}, 4, 8)));
  EXPECT_FALSE(same(source->random({.key = 1}, 4, 8), source->random({.key = 2}, 4, 8)));
  const Batch sample = source->random({.key = 1}, 4, 8);
  EXPECT_NE(row(sample[Field::Tokens], 0), row(sample[Field::Tokens], 1));  // rows are drawn apart
}

TEST(Bytes, RandomWindowsReachFromTheFirstByteToTheLast) {
  const File file(counting(12));
  const auto source = open_source("data.train", file.path(), 256, 8);
  std::set<std::int64_t> starts;
  for (std::uint64_t key = 0; key < 100; ++key)
    starts.insert(row(source->random({.key = key}, 1, 8)[Field::Tokens], 0)[0]);
  EXPECT_EQ(starts, (std::set<std::int64_t>{0, 1, 2, 3}));  // 3 + 8 is the last target
}

TEST(Bytes, SequentialWindowsFollowOneAnotherAndWrap) {
  const File file(counting(16));  // three windows of four: a fourth would lack its last target
  const auto source = open_source("data.validation", file.path(), 256, 4);
  const Batch first = source->sequential(0, 2, 4), second = source->sequential(1, 2, 4);
  EXPECT_EQ(row(first[Field::Tokens], 0), (Row{0, 1, 2, 3}));
  EXPECT_EQ(row(first[Field::Tokens], 1), (Row{4, 5, 6, 7}));
  EXPECT_EQ(row(second[Field::Tokens], 0), (Row{8, 9, 10, 11}));
  EXPECT_EQ(row(second[Field::Targets], 0), (Row{9, 10, 11, 12}));
  EXPECT_EQ(row(second[Field::Tokens], 1), (Row{0, 1, 2, 3}));  // wrapped around
  EXPECT_TRUE(same(source->sequential(3, 2, 4), first));
}

TEST(Bytes, AreDescribedByPathAndSize) {
  const File file("abcde");
  EXPECT_EQ(open_source("data.train", file.path(), 256, 4)->describe(), file.path() + " (5 bytes)");
}

TEST(Bytes, AMissingFileIsRefusedWithTheReason) {
  EXPECT_EQ(
      refusal("no/such/file", 256, 4),
      "data.train is 'no/such/file', which cannot be read (No such file or directory); give a text file, "
      "token files, or synthetic");
  EXPECT_EQ(refusal(testing::TempDir(), 256, 4),
            "data.train is '" + testing::TempDir() +
                "', which cannot be read (not a regular file); give a text file, "
                "token files, or synthetic");
}

TEST(Bytes, AFileShorterThanAWindowIsRefusedWithBothSizes) {
  const File file("abcd");
  EXPECT_EQ(refusal(file.path(), 256, 4),
            "data.train is '" + file.path() + "' with 4 bytes; one window of model.context = 4 needs 5");
  const File empty("");
  EXPECT_EQ(refusal(empty.path(), 256, 4),
            "data.train is '" + empty.path() + "' with 0 bytes; one window of model.context = 4 needs 5");
}

TEST(Bytes, AVocabularyTooSmallForTheFileIsRefusedWithTheSmallestThatWillDo) {
  const File file("abcdez");
  EXPECT_EQ(refusal(file.path(), 'z', 4), "model.vocab is 122, but data.train '" + file.path() +
                                              "' holds token 122; it must be at least 123");
  EXPECT_EQ(refusal(file.path(), 'z' + 1, 4), "accepted");
}

TEST(Synthetic, DependsOnTheKeyAlone) {
  const auto one = open_source("data.train", "synthetic", 64, 16);
  const auto two = open_source("data.train", "synthetic", 64, 16);
  EXPECT_TRUE(same(one->random({.key = 5}, 4, 16), two->random({.key = 5}, 4, 16)));
  EXPECT_FALSE(same(one->random({.key = 5}, 4, 16), one->random({.key = 6}, 4, 16)));
  EXPECT_TRUE(same(one->sequential(5, 4, 16), two->sequential(5, 4, 16)));
  EXPECT_FALSE(same(one->sequential(5, 4, 16), one->sequential(6, 4, 16)));
  EXPECT_EQ(one->describe(), "synthetic tokens below 64");
}

TEST(Synthetic, TokensAreBelowTheVocabularyAndTargetsOnePlaceOn) {
  for (int vocab : {1, 2, 64, 50'257}) {
    const Batch sample = open_source("data.train", "synthetic", vocab, 16)->random({.key = 1}, 8, 16);
    EXPECT_GE(sample[Field::Tokens].min().item<std::int64_t>(), 0);
    EXPECT_LT(sample[Field::Tokens].max().item<std::int64_t>(), vocab);
    EXPECT_LT(sample[Field::Targets].max().item<std::int64_t>(), vocab);
    EXPECT_TRUE(at::equal(sample[Field::Targets].narrow(1, 0, 15), sample[Field::Tokens].narrow(1, 1, 15)));
  }
}

}  // namespace
}  // namespace twobw::data
