#include "app/measure/found_cluster.h"

#include <gtest/gtest.h>

namespace twobw::measure {
namespace {

constexpr double kGiB = 1 << 30;

device::Machine machine_like(double copy_bandwidth, double memory = 8 * kGiB) {
  return {.processor = "Abacus",
          .cores = 4,
          .memory = memory,
          .copy_bandwidth = copy_bandwidth,
          .handover = 5e-6};
}

runtime::HostDevices process_on(const std::string& host, const std::string& machine,
                                std::vector<int> cores = {0, 1, 2, 3}) {
  return {.host = host, .machine = machine, .cores = std::move(cores)};
}

const WireLink kInside{.latency = 2e-5, .one_way = 4e9, .both_ways = 3e9};
const WireLink kBetween{.latency = 1e-4, .one_way = 125e6, .both_ways = 120e6};

// Two hosts of two processes each.
FoundCluster two_hosts(double bandwidth = 5e9) {
  const std::vector<runtime::HostDevices> processes = {process_on("a", "m"), process_on("a", "m"),
                                                       process_on("b", "n"), process_on("b", "n")};
  const device::Machine unmeasured;
  return found_cluster(processes, {machine_like(5e9), unmeasured, machine_like(bandwidth), unmeasured},
                       {{{0, 1}, kInside}, {{2, 3}, kInside}, {{0, 2}, kBetween}});
}

TEST(FoundCluster, HasANodeForEveryHost) {
  const planner::Cluster cluster = cluster_of(two_hosts());
  ASSERT_EQ(cluster.nodes.size(), 2u);
  EXPECT_EQ(cluster.nodes[0].name, "a");
  EXPECT_EQ(cluster.nodes[1].name, "b");
  EXPECT_EQ(cluster.device_count(), 8);
  ASSERT_EQ(cluster.kinds.size(), 1u);
  EXPECT_EQ(cluster.kinds[0].memory, 2 * kGiB);
  const planner::LinkSpec inside{.latency = 2e-5, .bandwidth = 3e9};
  EXPECT_EQ(cluster.nodes[0].link, inside);
  EXPECT_EQ(cluster.nodes[1].link, inside);
  EXPECT_EQ(cluster.network, (planner::LinkSpec{.latency = 1e-4, .bandwidth = 120e6, .shared = true}));
}

TEST(FoundCluster, ReadsBackFromItsDescription) {
  const FoundCluster found = two_hosts();
  const std::string text = describe(found);
  EXPECT_EQ(text.find("# Written by `twobw topology` in 4 processes on 2 hosts.\n"), 0u) << text;
  EXPECT_NE(
      text.find("#   a - b, processes 0 and 2: 100 us, one way alone 1 Gbit/s, both ways 960 Mbit/s each\n"),
      std::string::npos)
      << text;
  EXPECT_EQ(planner::parse_cluster(text, "c.yaml"), cluster_of(found)) << text;
}

TEST(FoundCluster, TakesHostsForAlikeThatAMeasurementCannotTellApart) {
  EXPECT_EQ(cluster_of(two_hosts(4.5e9)).kinds.size(), 1u);
  EXPECT_DOUBLE_EQ(cluster_of(two_hosts(4.5e9)).kinds[0].memory_bandwidth, 9e9);
  const planner::Cluster unlike = cluster_of(two_hosts(1e9));
  ASSERT_EQ(unlike.kinds.size(), 2u);
  EXPECT_NE(unlike.kinds[0].name, unlike.kinds[1].name);
  EXPECT_EQ(unlike.nodes[1].islands[0].kind, 1);
  EXPECT_EQ(planner::parse_cluster(planner::to_yaml(unlike), "c.yaml"), unlike);
}

TEST(FoundCluster, OfOneProcessAHostHasTheLinkBetweenItsThreads) {
  const FoundCluster found = found_cluster({process_on("a", "m"), process_on("b", "n")},
                                           {machine_like(5e9), machine_like(5e9)}, {{{0, 1}, kBetween}});
  const planner::Cluster cluster = cluster_of(found);
  EXPECT_EQ(cluster.nodes[0].link, (planner::LinkSpec{.latency = 5e-6, .bandwidth = 5e9}));
  EXPECT_EQ(cluster.network.bandwidth, 120e6);
}

TEST(FoundCluster, OfOneHostHasNoNetwork) {
  const FoundCluster found = found_cluster({process_on("a", "m"), process_on("a", "m")},
                                           {machine_like(5e9), {}}, {{{0, 1}, kInside}});
  const planner::Cluster cluster = cluster_of(found);
  EXPECT_EQ(cluster.device_count(), 4);
  EXPECT_EQ(cluster.nodes[0].link.bandwidth, 3e9);
  EXPECT_EQ(cluster.network, planner::kNoLink);
  EXPECT_EQ(planner::parse_cluster(describe(found), "c.yaml"), cluster);
}

TEST(FoundCluster, CountsTheCoresThatALauncherHasBoundProcessesTo) {
  const FoundCluster found = found_cluster({process_on("a", "m", {0, 1}), process_on("a", "m", {4, 5, 6})},
                                           {machine_like(5e9), {}}, {{{0, 1}, kInside}});
  EXPECT_EQ(found.hosts[0].cores, 5);
}

TEST(FoundCluster, SharesTheCoresOfAMachineAmongItsContainers) {
  const FoundCluster found = found_cluster({process_on("one", "m"), process_on("two", "m")},
                                           {machine_like(5e9), {}}, {{{0, 1}, kBetween}});
  ASSERT_EQ(found.hosts.size(), 2u);
  EXPECT_EQ(found.hosts[0].cores + found.hosts[1].cores, 4);
  EXPECT_EQ(found.hosts[1].memory, 2 * kGiB);
  EXPECT_EQ(found.hosts[1].machine.copy_bandwidth, 5e9);
}

TEST(FoundCluster, NamesHostsApart) {
  const FoundCluster found = found_cluster({process_on("a", "m"), process_on("a", "n")},
                                           {machine_like(5e9), machine_like(5e9)}, {{{0, 1}, kBetween}});
  EXPECT_EQ(found.hosts[1].name, "a (2)");
  EXPECT_EQ(planner::parse_cluster(describe(found), "c.yaml"), cluster_of(found));
  const std::string table = table_of(found);
  EXPECT_NE(table.find("a - a (2)"), std::string::npos) << table;
  EXPECT_NE(table.find("960 Mbit/s"), std::string::npos) << table;
}

FoundGpu h200(int slices = 1) {
  return {.name = "NVIDIA H200", .memory = 139.8 * kGiB, .slices = slices};
}

runtime::HostDevices gpu_process(const std::string& host) {
  return {.host = host, .machine = "machine of " + host, .cores = {0, 1}, .gpus = {"0"}};
}

const WireLink kNvlink{.latency = 8e-6, .one_way = 3e11, .both_ways = 2.8e11};
const WireLink kNetwork{.latency = 3e-5, .one_way = 4e10, .both_ways = 3.9e10};

TEST(FoundGpus, AreKnownByTheirNames) {
  const std::vector<std::pair<FoundGpu, std::string>> known = {
      {h200(), "H200"},
      {{.name = "NVIDIA H100 80GB HBM3", .memory = 79.1 * kGiB}, "H100"},
      {{.name = "NVIDIA A100-SXM4-40GB", .memory = 39.4 * kGiB}, "A100-40GB"},
      {{.name = "NVIDIA A100-SXM4-80GB", .memory = 79.3 * kGiB}, "A100-80GB"},
      {{.name = "Tesla V100-SXM2-16GB", .memory = 15.8 * kGiB}, "V100-16GB"},
      {{.name = "Tesla T4", .memory = 14.6 * kGiB}, "T4"},
      {{.name = "NVIDIA L4", .memory = 22.5 * kGiB}, "L4"},
      {{.name = "NVIDIA GeForce RTX 4090", .memory = 23.6 * kGiB}, "RTX 4090"}};
  for (const auto& [gpu, name] : known) EXPECT_EQ(kind_of(gpu), planner::known_device(name)) << gpu.name;
}

TEST(FoundGpus, OfOtherNamesHaveTheMemoryThatWasFound) {
  for (const std::string name :
       {"NVIDIA H100 PCIe", "NVIDIA GH200 480GB", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "Abacus"}) {
    const planner::DeviceKind kind = kind_of({.name = name, .memory = 5 * kGiB});
    EXPECT_EQ(kind, (planner::DeviceKind{.name = name, .memory = 5 * kGiB}));
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
  const ProcessGpus other{.gpus = {{.name = "Abacus", .memory = 5 * kGiB}}};
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
  const ProcessGpus more{.gpus = {{.name = "Abacus", .memory = 5 * kGiB}}},
      less{.gpus = {{.name = "Abacus", .memory = 4 * kGiB}}};
  const planner::Cluster cluster =
      cluster_of(found_gpus({gpu_process("a"), gpu_process("a")}, {more, less}, {{{0, 1}, kNvlink}}));
  ASSERT_EQ(cluster.kinds.size(), 1u);
  EXPECT_EQ(cluster.kinds[0].memory, 4 * kGiB);
  EXPECT_EQ(cluster.device_count(), 2);
}

}  // namespace
}  // namespace twobw::measure
