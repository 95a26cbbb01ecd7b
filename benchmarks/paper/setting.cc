#include "setting.h"

#include "core/base/error.h"

namespace twobw::paper {
namespace {

constexpr Row kRows[] = {
    {"2.2B", 1, 64, 8, 1, {7, 25, 18, 26, 43}},     {"2.2B", 1, 256, 8, 1, {7, 26, 18, 38, 44}},
    {"2.2B", 8, 512, 8, 8, {11, 88, 80, 110, 160}}, {"2.2B", 8, 2048, 8, 8, {12, 155, 80, 145, 168}},
    {"3.8B", 8, 512, 16, 4, {10, 8, 38, 75, 127}},  {"3.8B", 8, 2048, 16, 4, {12, 8, 38, 115, 135}},
};

constexpr Published kLargest[] = {{1, 1.2}, {2, 1.7}, {4, 2.5}, {8, 4.5}, {16, 8.6}, {32, 15.5}, {64, 28.5}};

}  // namespace

std::string_view name(System system) {
  switch (system) {
    case System::Interlayer:
      return "inter-layer";
    case System::Tensor:
      return "tensor";
    case System::GPipe:
      return "GPipe";
    case System::Flush:
      return "flush";
    case System::TwoBW:
      return "2BW";
  }
  return "?";
}

std::span<const Row> rows() {
  return kRows;
}

std::span<const Published> largest_models() {
  return kLargest;
}

ModelConfig model(std::string_view name) {
  // Dropout, as usual then, which also rules out the fused attention that came later.
  ModelConfig model = {.vocab = 51200, .context = 512, .tied = true, .dropout = 0.1};
  model.layers = 32;
  model.heads = 32;
  model.width = name == "2.2B" ? 2304 : 3072;
  TWOBW_ASSERT(name == "2.2B" || name == "3.8B", "model {}", name);
  return model;
}

// NVLink 2: six links of 25 GB/s a device in each direction. One network card of 25 Gbit/s a node.
planner::Cluster cluster(int nodes, int devices_per_node, const Fitted& fitted, double network) {
  planner::Cluster cluster{.name = "V100-16GB, 8 a node", .kinds = {planner::known_device("V100-16GB")}};
  cluster.kinds[0].efficiency = fitted.efficiency;
  cluster.kinds[0].overhead = fitted.overhead;
  const planner::LinkSpec nvlink = {.latency = 10e-6, .bandwidth = 150e9};
  cluster.network = {.latency = 50e-6, .bandwidth = network * 25e9 / 8, .shared = true};
  for (int i = 0; i < nodes; ++i) {
    cluster.nodes.push_back({.name = fmt::format("node{}", i),
                             .islands = {{.kind = 0, .count = devices_per_node}},
                             .link = nvlink});
  }
  return cluster;
}

}  // namespace twobw::paper
