#include "core/base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

namespace twobw {
namespace {

using Words = std::array<std::uint32_t, 4>;

Words drawn(const Words& counter, std::uint32_t k0, std::uint32_t k1) {
  const PhiloxWords words =
      philox4x32({counter[0], counter[1], counter[2], counter[3]}, std::uint64_t{k1} << 32 | k0);
  return {words.x0, words.x1, words.x2, words.x3};
}

// The known answers of Random123, its authors' library, for philox4x32 with 10 rounds.
TEST(Philox, HasTheKnownAnswers) {
  EXPECT_EQ(drawn({0, 0, 0, 0}, 0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(drawn({~0u, ~0u, ~0u, ~0u}, ~0u, ~0u), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(drawn({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

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

// A resumed run must find the same order, in any version of the program.
TEST(Permutation, IsTheSameEverywhere) {
  EXPECT_EQ(all_of(8, 1), (std::vector<std::uint64_t>{7, 0, 5, 1, 3, 2, 4, 6}));
}

// Over many keys every number takes every place equally often.
TEST(Permutation, FavorsNoPlace) {
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

// Neighbors are as far apart afterwards as two random numbers: a third of the size.
TEST(Permutation, SeparatesNeighbors) {
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
