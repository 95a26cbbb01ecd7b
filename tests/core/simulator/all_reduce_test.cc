#include <gtest/gtest.h>

#include "core/simulator/simulate.h"

namespace twobw::simulator {
namespace {

constexpr Channel kInside = {.latency = 1, .bandwidth = 16};
constexpr Channel kBetween = {.latency = 4, .bandwidth = 2};

TEST(AllReduce, ARingSendsEachShareAroundTwice) {
  EXPECT_EQ(ring_all_reduce(64, 1, kInside), 0);
  EXPECT_EQ(ring_all_reduce(64, 2, kInside), 2 * (1 + 32.0 / 16));
  EXPECT_EQ(ring_all_reduce(64, 4, kInside), 6 * (1 + 16.0 / 16));
}

TEST(AllReduce, AHierarchyOfOneLevelIsARing) {
  EXPECT_EQ(hierarchical_all_reduce(64, 1, 4, kInside, kBetween), ring_all_reduce(64, 4, kInside));
  EXPECT_EQ(hierarchical_all_reduce(64, 4, 1, kInside, kBetween), ring_all_reduce(64, 4, kBetween));
}

TEST(AllReduce, AHierarchySendsBetweenNodesWhatOneNodeHolds) {
  EXPECT_EQ(hierarchical_all_reduce(64, 2, 4, kInside, kBetween), 6 * (1 + 1.0) + 2 * (4 + 16.0));
}

}  // namespace
}  // namespace twobw::simulator
