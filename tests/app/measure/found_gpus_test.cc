#include "app/measure/found_gpus.h"

#include <gtest/gtest.h>

namespace twobw::measure {
namespace {

constexpr double kGibibyte = 1 << 30;

FoundGpu h200(int slices = 1) {
  return {.name = "NVIDIA H200", .memory = 139.8 * kGibibyte, .slices = slices};
}

runtime::HostDevices gpu_process(const std::string& host) {
  return {.host = host, .machine = "machine of " + host, .cores = {0, 1}, .gpus = {"0"}};
}

const WireLink kNvlink{.latency = 8e-6, .one_way = 3e11, .both_ways = 2.8e11};
const WireLink kNetwork{.latency = 3e-5, .one_way = 4e10, .both_ways = 3.9e10};

TEST(FoundGpus, AreKnownByTheirNames) {
  const std::vector<std::pair<FoundGpu, std::string>> known = {
      {h200(), "H200"},
      {{.name = "NVIDIA H100 80GB HBM3", .memory = 79.1 * kGibibyte}, "H100"},
      {{.name = "NVIDIA A100-SXM4-40GB", .memory = 39.4 * kGibibyte}, "A100-40GB"},
      {{.name = "NVIDIA A100-SXM4-80GB", .memory = 79.3 * kGibibyte}, "A100-80GB"},
      {{.name = "Tesla V100-SXM2-16GB", .memory = 15.8 * kGibibyte}, "V100-16GB"},
      {{.name = "Tesla T4", .memory = 14.6 * kGibibyte}, "T4"},
      {{.name = "NVIDIA L4", .memory = 22.5 * kGibibyte}, "L4"},
      {{.name = "NVIDIA GeForce RTX 4090", .memory = 23.6 * kGibibyte}, "RTX 4090"}};
  for (const auto& [gpu, name] : known) EXPECT_EQ(kind_of(gpu), planner::known_device(name)) << gpu.name;
}

TEST(FoundGpus, OfOtherNamesHaveTheMemoryThatWasFound) {
  for (const std::string name :
       {"NVIDIA H100 PCIe", "NVIDIA GH200 480GB", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "Abacus"}) {
    const planner::DeviceKind kind = kind_of({.name = name, .memory = 5 * kGibibyte});
    EXPECT_EQ(kind, (planner::DeviceKind{.name = name, .memory = 5 * kGibibyte}));
  }
}

TEST(FoundGpus, InSlicesHaveTheirPart) {
  const planner::DeviceKind whole = planner::known_device("H200"), slice = kind_of(h200(4));
  EXPECT_EQ(slice.name, "H200/4");
  EXPECT_EQ(slice.memory, whole.memory / 4);
  EXPECT_EQ(slice.memory_bandwidth, whole.memory_bandwidth / 4);
  EXPECT_EQ(slice.rates.at("bf16"), whole.rates.at("bf16") / 4);
}

// Two hosts, of two processes with two GPUs each.
FoundCluster two_hosts_of_gpus() {
  const ProcessGpus two{.gpus = {h200(), h200()}};
  return found_gpus({gpu_process("a"), gpu_process("a"), gpu_process("b"), gpu_process("b")},
                    {two, two, two, two}, {{{0, 1}, kNvlink}, {{2, 3}, kNvlink}, {{0, 2}, kNetwork}});
}

TEST(FoundGpus, AreTheDevicesOfTheirHosts) {
  const FoundCluster found = two_hosts_of_gpus();
  const planner::Cluster cluster = cluster_of(found);
  ASSERT_EQ(cluster.nodes.size(), 2u);
  EXPECT_EQ(cluster.kinds, std::vector{planner::known_device("H200")});
  for (const planner::Node& node : cluster.nodes) {
    EXPECT_EQ(node.islands, (std::vector<planner::Island>{{.kind = 0, .count = 4}}));
    EXPECT_EQ(node.link, (planner::LinkSpec{.latency = 8e-6, .bandwidth = 2.8e11}));
  }
  EXPECT_EQ(cluster.network, (planner::LinkSpec{.latency = 3e-5, .bandwidth = 3.9e10, .shared = true}));
  const std::string text = describe(found);
  EXPECT_NE(text.find("devices: \"4 x H200\"\n"), std::string::npos) << text;
  EXPECT_EQ(planner::parse_cluster(text, "c.yaml"), cluster) << text;
  const std::string table = table_of(found);
  EXPECT_NE(table.find("GPUs"), std::string::npos) << table;
  EXPECT_NE(table.find("H200"), std::string::npos) << table;
}

TEST(FoundGpus, OfOneProcessHaveTheLinkThatItMeasured) {
  const planner::LinkSpec local{.latency = 2e-6, .bandwidth = 2e12};
  const ProcessGpus slices{.gpus = {h200(2), h200(2)}, .local = local};
  const ProcessGpus other{.gpus = {{.name = "Abacus", .memory = 5 * kGibibyte}}};
  const FoundCluster found =
      found_gpus({gpu_process("a"), gpu_process("b")}, {slices, other}, {{{0, 1}, kNetwork}});
  const planner::Cluster cluster = cluster_of(found);
  ASSERT_EQ(cluster.kinds.size(), 2u);
  EXPECT_EQ(cluster.nodes[0].link, local);
  EXPECT_EQ(cluster.nodes[1].link, planner::kNoLink);
  EXPECT_EQ(cluster.nodes[1].islands, (std::vector<planner::Island>{{.kind = 1, .count = 1}}));
  EXPECT_EQ(planner::parse_cluster(describe(found), "c.yaml"), cluster) << describe(found);
}

// Drivers leave a little more or less of it.
TEST(FoundGpus, OfOneNameAreOneKind) {
  const ProcessGpus more{.gpus = {{.name = "Abacus", .memory = 5 * kGibibyte}}},
      less{.gpus = {{.name = "Abacus", .memory = 4 * kGibibyte}}};
  const planner::Cluster cluster =
      cluster_of(found_gpus({gpu_process("a"), gpu_process("a")}, {more, less}, {{{0, 1}, kNvlink}}));
  ASSERT_EQ(cluster.kinds.size(), 1u);
  EXPECT_EQ(cluster.kinds[0].memory, 4 * kGibibyte);
  EXPECT_EQ(cluster.device_count(), 2);
}

}  // namespace
}  // namespace twobw::measure
