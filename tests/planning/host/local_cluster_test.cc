#include "planning/host/machine.h"

#include <gtest/gtest.h>

#include "planning/host/cores.h"

namespace twobw::measure {
namespace {

TEST(Machine, IsDescribedByItsCores) {
  const device::Machine machine{.processor = "Abacus",
                                .cores = 4,
                                .memory = 8.0 * (1 << 30),
                                .copy_bandwidth = 5.04e9,
                                .handover = 7.26e-6};
  const planner::Cluster cluster = cluster_of(machine);
  ASSERT_EQ(cluster.nodes.size(), 1u);
  EXPECT_EQ(cluster.device_count(), 4);
  EXPECT_EQ(cluster.kinds[0].name, "CPU core");
  EXPECT_EQ(cluster.kinds[0].memory, 2.0 * (1 << 30));
  EXPECT_DOUBLE_EQ(cluster.kinds[0].memory_bandwidth, 10.1e9);
  EXPECT_DOUBLE_EQ(cluster.nodes[0].link.bandwidth, 5e9);
  EXPECT_DOUBLE_EQ(cluster.nodes[0].link.latency, 7.3e-6);
}

TEST(Machine, ReadsBackFromItsDescription) {
  const device::Machine machine{
      .processor = "Abacus", .cores = 3, .memory = 1e10, .copy_bandwidth = 5e9, .handover = 7e-6};
  const std::string text = describe(machine);
  EXPECT_EQ(text.find("# Written by `twobw topology`: 3 cores of Abacus.\n"), 0u) << text;
  EXPECT_EQ(planner::parse_cluster(text, "c.yaml"), cluster_of(machine)) << text;
}

TEST(Machine, IsMeasured) {
  const device::Machine machine = device::measure_machine();
  EXPECT_EQ(machine.cores, static_cast<int>(device::available_cores().size()));
  EXPECT_GT(machine.memory, 1e8);
  EXPECT_GT(machine.copy_bandwidth, 1e7);
  EXPECT_LT(machine.copy_bandwidth, 1e12);
  EXPECT_GT(machine.handover, 1e-8);
  EXPECT_LT(machine.handover, 1);
}

}  // namespace
}  // namespace twobw::measure
