#include "planning/planner/costs/profiled_cluster.h"

#include <gtest/gtest.h>

namespace twobw::planner {
namespace {

TEST(ProfiledCluster, HasDevicesLikeTheProfiledOne) {
  Profile profile{.device = "cuda: one of 4 slices of a GPU", .device_memory = 3e10};
  profile.links["local"] = {.latency = 1e-5, .bandwidth = 1e12};
  const Cluster cluster = profiled_cluster(profile, 4);
  EXPECT_EQ(cluster.device_count(), 4);
  ASSERT_EQ(cluster.kinds.size(), 1u);
  EXPECT_EQ(cluster.kinds[0].name, profile.device);
  EXPECT_EQ(cluster.kinds[0].memory, 3e10);
  EXPECT_EQ(cluster.nodes[0].link, profile.links["local"]);
}

TEST(ProfiledCluster, ALinkThatWasNotMeasuredIsNotCrossed) {
  EXPECT_EQ(profiled_cluster({.device = "cpu: 1 core"}, 1).nodes[0].link, kNoLink);
}

}  // namespace
}  // namespace twobw::planner
