#include "core/base/dropout.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>
#include <vector>

namespace twobw {
namespace {

constexpr std::uint64_t kKey = mask_key(dropout_key(5, 6, 7), dropout_site(8, 1));

float factor(std::uint64_t key, const MaskRow& row, std::uint32_t column, double p) {
  std::array<float, 4> factors;
  dropout_factors(key, row, column / 4, dropout_rate(p), factors.data());
  return factors[column % 4];
}

// Notices a change of the masks, and with them of every run with dropout.
TEST(DropoutMask, TheKeyIsWrittenDown) {
  EXPECT_EQ(dropout_key(5, 6, 7), scramble(scramble(scramble(scramble(5) ^ hash_text("dropout")) ^ 6) ^ 7));
  EXPECT_EQ(dropout_site(8, 1), scramble(scramble(8) ^ 1));
  EXPECT_EQ(kKey, scramble(dropout_key(5, 6, 7) ^ dropout_site(8, 1)));
  EXPECT_EQ(kKey, 0x53daf730f166d53u);
}

TEST(DropoutMask, AnElementIsNamedByItsIndexes) {
  const MaskRow row = mask_row((3 * 4 + 2) * 5 + 1, /*n1=*/5, /*n2=*/4);
  EXPECT_EQ(row.i1, 1u);
  EXPECT_EQ(row.i2, 2u);
  EXPECT_EQ(row.i3, 3u);
  // Columns of one row, and the same columns of neighboring rows, have bits of their own.
  std::set<std::uint32_t> bits;
  for (const MaskRow& of : {row, mask_row(0, 5, 4), MaskRow{1, 2, 4}, MaskRow{1, 3, 3}, MaskRow{2, 2, 3}}) {
    for (std::uint32_t group = 0; group < 10; ++group) {
      const PhiloxWords words = philox4x32({group, of.i1, of.i2, of.i3}, kKey);
      bits.insert({words.x0, words.x1, words.x2, words.x3});
    }
  }
  EXPECT_EQ(bits.size(), 5u * 10 * 4);
}

TEST(DropoutMask, KeepsWhatItsRateSays) {
  EXPECT_EQ(dropout_rate(0.5).threshold, 0x80000000u);
  EXPECT_EQ(dropout_rate(0.25).threshold, 0x40000000u);
  EXPECT_EQ(dropout_rate(1 - 1e-15).threshold, 0xffffffffu);
  EXPECT_EQ(dropout_rate(0.5).scale, 2.0f);
  EXPECT_EQ(dropout_factor(0x7fffffffu, dropout_rate(0.5)), 0.0f);
  EXPECT_EQ(dropout_factor(0x80000000u, dropout_rate(0.5)), 2.0f);
}

// Within five standard deviations for the size of a real mask: for every word, and for pairs of neighbors,
// which must be independent.
TEST(DropoutMask, IsAsRandomAsItShouldBe) {
  for (const double p : {0.1, 0.5, 0.9}) {
    constexpr int kRows = 400, kColumns = 1024;
    std::array<double, 4> kept{};
    double both = 0;
    for (int row = 0; row < kRows; ++row) {
      float before = 0;
      for (std::uint32_t column = 0; column < kColumns; ++column) {
        const float now = factor(kKey, mask_row(row, 20, 20), column, p);
        kept[column % 4] += now != 0;
        both += now != 0 && before != 0;
        before = now;
      }
    }
    const double q = 1 - p, count = kRows * kColumns / 4.0, pairs = kRows * (kColumns - 1.0);
    for (const double of_word : kept) EXPECT_NEAR(of_word, q * count, 5 * std::sqrt(count * p * q)) << p;
    EXPECT_NEAR(both, q * q * pairs, 5 * std::sqrt(pairs * 3 * q * q * (1 - q * q))) << p;
  }
}

}  // namespace
}  // namespace twobw
