// The setting of the published evaluation: Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN
// Training", ICML 2021. The throughputs were read off the bars of its figures.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "core/base/config.h"
#include "planning/planner/costs/layer_costs.h"
#include "planning/planner/hardware/cluster.h"

namespace twobw::paper {

enum class System { Interlayer, Tensor, GPipe, Flush, TwoBW };
inline constexpr std::array kSystems = {System::Interlayer, System::Tensor, System::GPipe, System::Flush,
                                        System::TwoBW};
std::string_view name(System system);

struct Row {
  const char* model;  // "2.2B"
  int nodes;          // of eight V100
  int batch;
  int stages, replicas;                   // of the pipelines; the tensor-parallel ways, and replicas of those
  std::array<double, 5> sequences_per_s;  // published, in the order of kSystems

  int devices() const { return stages * replicas; }
};
std::span<const Row> rows();

// How much of its nominal rate the network reaches between nodes, when gradients or parts of products are
// summed and when a stage sends to the next.
struct Network {
  double sums = 1, transfers = 1;
};

// Fitted to the published figures of 64 GPUs (README.md). Not used to predict them.
inline constexpr Network kPublishedNetwork = {.sums = 0.73, .transfers = 0.43};

// The first two are fitted, and only to the rows of eight GPUs.
struct Fitted {
  double efficiency = 0.5;  // of the V100's peak rate, reached by large matrix products
  double overhead = 0;      // seconds added per layer (a fifth of a block), forward; twice that backward
  Network network = {};
};

struct Published {
  int stages;
  double billions;  // of parameters
};
// The largest model that trains on this many V100, one stage each.
std::span<const Published> largest_models();

ModelConfig model(std::string_view name);
// Its network reaches `network` of the nominal rate.
planner::Cluster cluster(int nodes, int devices_per_node, const Fitted& fitted, double network = 1);

// fp16 weights and gradients, fp32 master weights and Adam moments, as Megatron keeps them.
inline constexpr planner::StateBytes kState = {.weights = 2, .master = 4, .gradients = 2, .optimizer = 8};
inline constexpr int kDevicesPerNode = 8;
inline constexpr const char* kPrecision = "fp16";
inline constexpr std::array kMicrobatches = {1, 2, 4, 8, 16, 32, 64};

}  // namespace twobw::paper
