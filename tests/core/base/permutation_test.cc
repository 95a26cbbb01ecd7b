#include "core/base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace twobw {
namespace {

std::vector<std::uint64_t> all_of(std::uint64_t size, std::uint64_t key) {
  const Permutation shuffle(size, key);
  std::vector<std::uint64_t> values(size);
  for (std::uint64_t i = 0; i < size; ++i) values[i] = shuffle(i);
  return values;
}

TEST(Permutation, HasEveryNumberOnce) {
  std::vector<std::uint64_t> sizes(70);
  std::iota(sizes.begin(), sizes.end(), 1);
  sizes.insert(sizes.end(), {255, 256, 257, 1023, 1024, 1025, 4097, 65'535, 65'537});
  for (const std::uint64_t size : sizes) {
    for (const std::uint64_t key : {0, 1, 2}) {
      std::vector<std::uint64_t> values = all_of(size, key);
      std::sort(values.begin(), values.end());
      for (std::uint64_t i = 0; i < size; ++i) ASSERT_EQ(values[i], i) << size;
    }
  }
}

TEST(Permutation, StaysBelowSizesThatNoTableCouldHave) {
  for (const std::uint64_t size : {(std::uint64_t{1} << 40) + 1, std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
    const Permutation shuffle(size, 5);
    for (const std::uint64_t i : {std::uint64_t{0}, std::uint64_t{1}, size / 2, size - 1}) {
      EXPECT_LT(shuffle(i), size);
    }
    EXPECT_NE(shuffle(0), shuffle(1));
  }
}

// A run that is started again must find the same order, in whatever version of the program.
TEST(Permutation, IsTheSameEverywhere) {
  EXPECT_EQ(all_of(8, 1), (std::vector<std::uint64_t>{7, 0, 5, 1, 3, 2, 4, 6}));
}

// Over many keys every number comes to every place equally often.
TEST(Permutation, FavoursNoPlace) {
  constexpr int kKeys = 10'000;
  for (const std::uint64_t size : {2, 3, 5, 16, 21}) {
    std::vector<std::vector<int>> counts(size, std::vector<int>(size));
    for (std::uint64_t key = 0; key < kKeys; ++key) {
      const auto values = all_of(size, key);
      for (std::uint64_t i = 0; i < size; ++i) ++counts[i][values[i]];
    }
    const double expected = 1.0 * kKeys / static_cast<double>(size);
    for (const auto& row : counts) {
      for (const int count : row) EXPECT_NEAR(count, expected, 5 * std::sqrt(expected)) << size;
    }
  }
}

// Neighbours are no nearer to each other afterwards than two numbers drawn at random: a third of the size.
TEST(Permutation, SeparatesNeighbours) {
  for (const std::uint64_t size : {1000, 100'000}) {
    const auto values = all_of(size, 3);
    double apart = 0;
    for (std::uint64_t i = 1; i < size; ++i) {
      apart += std::abs(static_cast<double>(values[i]) - static_cast<double>(values[i - 1]));
    }
    EXPECT_NEAR(apart / static_cast<double>(size * size), 1.0 / 3, 0.02) << size;
  }
}

}  // namespace
}  // namespace twobw
