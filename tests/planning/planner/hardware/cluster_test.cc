#include "planning/planner/hardware/cluster.h"

#include "tests/planning/planner/planner_testing.h"

namespace twobw::planner {
namespace {

constexpr const char* kUnlike = R"(
name: two unlike nodes
devices:
  my-gpu: {memory: 24GiB, tflops: 80, memory_bandwidth: 1TB/s, efficiency: 0.4, overhead: 5us, speed: 1.5}
nodes:
  - {name: a, count: 3, devices: 8 x V100-16GB, link: {bandwidth: 150GB/s, latency: 5us}}
  - {name: b, devices: [4 x H100, 2 x my-gpu], link: {bandwidth: 64GB/s, latency: 10us, shared: true}}
network: {bandwidth: 25Gbit/s, latency: 20us, shared: true}
)";

Cluster parse(const std::string& text) {
  return parse_cluster(text, "c.yaml");
}

std::string refused_cluster(const std::string& text) {
  return refusal_of([&] { parse(text); });
}

TEST(Cluster, ReadsNodesDevicesAndLinks) {
  const Cluster cluster = parse(kUnlike);
  EXPECT_EQ(cluster.name, "two unlike nodes");
  EXPECT_EQ(cluster.device_count(), 3 * 8 + 4 + 2);
  ASSERT_EQ(cluster.nodes.size(), 4u);
  EXPECT_EQ(cluster.nodes[2].name, "a-2");
  EXPECT_EQ(cluster.nodes[2].device_count(), 8);
  EXPECT_EQ(cluster.nodes[3].name, "b");
  EXPECT_EQ(cluster.nodes[0].link, (LinkSpec{.latency = 5e-6, .bandwidth = 150e9}));
  EXPECT_EQ(cluster.nodes[3].link, (LinkSpec{.latency = 10e-6, .bandwidth = 64e9, .shared = true}));
  EXPECT_EQ(cluster.network, (LinkSpec{.latency = 20e-6, .bandwidth = 25e9 / 8, .shared = true}));

  ASSERT_EQ(cluster.kinds.size(), 3u);
  EXPECT_EQ(cluster.kinds[0], known_device("V100-16GB"));
  EXPECT_EQ(cluster.kinds[1], known_device("H100"));
  const DeviceKind& mine = cluster.kinds[2];
  EXPECT_EQ(mine.name, "my-gpu");
  EXPECT_EQ(mine.memory, 24.0 * 1024 * 1024 * 1024);
  EXPECT_EQ(mine.flops, 80e12);
  EXPECT_EQ(mine.memory_bandwidth, 1e12);
  EXPECT_EQ(mine.efficiency, 0.4);
  EXPECT_EQ(mine.overhead, 5e-6);
  EXPECT_EQ(mine.speed, 1.5);
  EXPECT_EQ(cluster.nodes[3].islands,
            (std::vector<Island>{{.kind = 1, .count = 4}, {.kind = 2, .count = 2}}));
}

TEST(Cluster, IsWrittenAsItIsRead) {
  const Cluster cluster = parse(kUnlike);
  const std::string text = to_yaml(cluster);
  EXPECT_EQ(parse(text), cluster) << text;
  EXPECT_NE(text.find("count: 3"), std::string::npos) << text;
  EXPECT_EQ(text.find("V100-16GB:"), std::string::npos) << "the catalogue's own are not repeated\n" << text;

  const Cluster small = parse("{nodes: [{name: 'yes: a - 0', devices: RTX 4090}]}");
  EXPECT_EQ(small.network, kNoLink);
  EXPECT_EQ(parse(to_yaml(small)), small) << to_yaml(small);
}

TEST(Cluster, RatesOfAFileMayDifferByPrecision) {
  const Cluster cluster =
      parse("{devices: {x: {memory: 1GB, tflops: {fp32: 10, bf16: 40.5}}}, nodes: [{devices: x}]}");
  EXPECT_EQ(cluster.kinds[0].rates, (std::map<std::string, double>{{"fp32", 10e12}, {"bf16", 40.5e12}}));
  EXPECT_EQ(parse(to_yaml(cluster)), cluster) << to_yaml(cluster);
}

TEST(Cluster, AFilesOwnKindComesBeforeTheCataloguesOfThatName) {
  const Cluster cluster = parse("{devices: {L4: {memory: 22GiB}}, nodes: [{devices: L4}]}");
  EXPECT_EQ(cluster.kinds[0].memory, 22.0 * 1024 * 1024 * 1024);
  EXPECT_EQ(parse(to_yaml(cluster)), cluster) << to_yaml(cluster);
}

TEST(Cluster, NamesWithACrossAreNotCounts) {
  const Cluster cluster = parse("{nodes: [{devices: 2x RTX 4090, link: {bandwidth: 1GB/s}}]}");
  EXPECT_EQ(cluster.device_count(), 2);
  EXPECT_EQ(cluster.kinds[0].name, "RTX 4090");
}

TEST(Cluster, RefusesAnEmptyOne) {
  EXPECT_EQ(refused_cluster(""),
            "c.yaml holds nothing; it must hold a cluster: nodes with their devices, such as 8 x V100-16GB");
  EXPECT_EQ(refused_cluster("nodes: []"),
            "nodes is [] at c.yaml:1; it must be a list of at least one map of keys");
  EXPECT_EQ(refused_cluster("name: x"),
            "nodes is missing in c.yaml; it must be a list of at least one map of keys");
  EXPECT_EQ(
      refused_cluster("nodes: [{name: a}]"),
      "nodes[0].devices is missing in c.yaml; it must name devices, such as 8 x V100-16GB, or be a list of "
      "such");
  EXPECT_EQ(refused_cluster("nodes: [{devices: 0 x H100}]"),
            "nodes[0].devices is '0 x H100' at c.yaml:1; it must have counts from 1 to 1048576");
}

TEST(Cluster, RefusesFiguresThatAreNotPositive) {
  EXPECT_EQ(
      refused_cluster("nodes:\n- devices: 2 x H100\n  link: {bandwidth: 0, latency: 5us}"),
      "nodes[0].link.bandwidth is 0 at c.yaml:3; it must be a rate above 0, such as 150GB/s or 25Gbit/s");
  EXPECT_EQ(refused_cluster("nodes:\n- devices: 2 x H100\n  link: {bandwidth: 25Gbps}"),
            "nodes[0].link.bandwidth is '25Gbps' at c.yaml:3; it must be a rate above 0, such as 150GB/s or "
            "25Gbit/s");
  EXPECT_EQ(refused_cluster("nodes:\n- devices: 2 x H100\n  link: {bandwidth: 1GB/s, latency: -1us}"),
            "nodes[0].link.latency is '-1us' at c.yaml:3; it must be a time of at least 0, such as 5us");
  EXPECT_EQ(refused_cluster("devices: {x: {memory: 0}}\nnodes: [{devices: x}]"),
            "devices.x.memory is 0 at c.yaml:1; it must be a size above 0, such as 24GiB");
  EXPECT_EQ(refused_cluster("devices: {x: {}}\nnodes: [{devices: x}]"),
            "devices.x.memory is missing in c.yaml; it must be a size above 0, such as 24GiB");
  EXPECT_EQ(refused_cluster("devices: {x: {memory: 1GB, efficiency: 2}}\nnodes: [{devices: x}]"),
            "devices.x.efficiency is 2 at c.yaml:1; it must be a number above 0 and at most 1");
  EXPECT_EQ(refused_cluster("nodes: [{devices: H100, count: 1.5}]"),
            "nodes[0].count is 1.5 at c.yaml:1; it must be a whole number from 1 to 1048576");
}

TEST(Cluster, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(refused_cluster("nodes: [{device: H100}]"),
            "unknown key 'nodes[0].device' at c.yaml:1; did you mean "
            "'nodes[0].devices'?");
  EXPECT_EQ(refused_cluster("nodes: [{devices: H100, colour: red}]"),
            "unknown key 'nodes[0].colour' at c.yaml:1; nodes[0] has name, count, devices, link");
  EXPECT_EQ(refused_cluster("name: a\nname: b"),
            "name is given twice, the second time at c.yaml:2; it must be given once");
  const std::string unknown = refused_cluster("devices: {mine: {memory: 1GB}}\nnodes: [{devices: 8 x V100}]");
  EXPECT_EQ(
      unknown.find("nodes[0].devices is '8 x V100' at c.yaml:2; it must name kinds of device that this file "
                   "or the catalogue has: mine, V100-16GB, "),
      0u)
      << unknown;
  EXPECT_EQ(refused_cluster("devices: {x: {memory: 1GB, tflops: {fp8: 1}}}\nnodes: [{devices: x}]"),
            "unknown key 'devices.x.tflops.fp8' at c.yaml:1; devices.x.tflops has fp32, fp16, bf16");
}

TEST(Cluster, RefusesMissingLinks) {
  EXPECT_EQ(
      refused_cluster("nodes: [{devices: 2 x H100}]"),
      "nodes[0].link is missing in c.yaml; it must give bandwidth and latency between the node's devices");
  EXPECT_EQ(refused_cluster("nodes: [{devices: H100, count: 2}]"),
            "network is missing in c.yaml; it must give bandwidth and latency between the nodes");
  EXPECT_EQ(refused_cluster("nodes: [{devices: H100}]\nnetwork: fast"),
            "network is 'fast' at c.yaml:2; it must be a map of keys");
}

TEST(Cluster, RefusesTwoNodesOfOneName) {
  EXPECT_EQ(refused_cluster("nodes: [{name: a, devices: H100}, {name: a, devices: H100}]"),
            "nodes[1].name is 'a' at c.yaml:1; it must differ from the other nodes', and there is another a");
}

TEST(Cluster, IsReadFromAFile) {
  const TemporaryFile file(kUnlike);
  EXPECT_EQ(load_cluster(file.path()), parse(kUnlike));
  EXPECT_EQ(refusal_of([] { load_cluster("nowhere.yaml"); }),
            "cluster file 'nowhere.yaml' cannot be read: No such file or directory");
}

}  // namespace
}  // namespace twobw::planner
