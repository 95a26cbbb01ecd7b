#include "engine/data/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace twobw::data {
namespace {
namespace bucketing {

using Numbers = std::vector<std::int64_t>;

Numbers numbers_to(std::int64_t count) {
  Numbers all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// Example 7 i mod 100 is of length i / 3: three of every length.
std::int64_t length_of(std::int64_t example) {
  return example * 43 % 100 / 3;
}

TEST(Buckets, HoldExamplesOfLikeLengthInRandomOrder) {
  const Numbers order = order_by_length(numbers_to(100), 12, 5, length_of);
  Numbers sorted = order;
  std::ranges::sort(sorted);
  EXPECT_EQ(sorted, numbers_to(100));
  Numbers first;
  for (int bucket = 0; bucket < 8; ++bucket) {
    const auto begin = order.begin() + 12 * bucket;
    EXPECT_TRUE(
        std::is_sorted(begin, begin + 12, [](auto a, auto b) { return length_of(a) < length_of(b); }));
    EXPECT_EQ(length_of(begin[11]) - length_of(begin[0]), 3);
    first.push_back(length_of(begin[0]));
  }
  EXPECT_FALSE(std::ranges::is_sorted(first));
  // What fills no bucket is the longest, and comes last.
  for (int i = 96; i < 100; ++i) EXPECT_GE(length_of(order[static_cast<std::size_t>(i)]), 32);
  EXPECT_EQ(order, order_by_length(numbers_to(100), 12, 5, length_of));
  EXPECT_NE(order, order_by_length(numbers_to(100), 12, 6, length_of));
}

TEST(Buckets, LargerThanThePoolLeaveItSorted) {
  const Numbers order = order_by_length(numbers_to(9), 12, 5, length_of);
  EXPECT_TRUE(std::ranges::is_sorted(order, {}, length_of));
  EXPECT_EQ(order_by_length({}, 3, 1, length_of), Numbers());
}

}  // namespace bucketing
}  // namespace
}  // namespace twobw::data
