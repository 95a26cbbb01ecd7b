// Made-up planning problems: plain ones that a test fills in, and random ones.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "planning/planner/costs/plan.h"
#include "planning/planner/search/search.h"

namespace twobw::planner {

// Trusts the time model: no simulation.
inline constexpr SearchOptions kByTheModel = {.simulate = 0};

// Identical nodes of identical devices; a block takes 1 s forward and 2 s backward for one sequence.
inline Problem uniform_problem(int nodes, int devices, int layers) {
  Problem problem;
  problem.cluster.kinds = {{.name = "device", .memory = 1e12}};
  for (int i = 0; i < nodes; ++i) {
    problem.cluster.nodes.push_back({.islands = {{.kind = 0, .count = devices}}, .link = kNoLink});
  }
  problem.cluster.network = kNoLink;
  CostColumn column{.microbatch = 1, .tokens = 8};
  for (int i = 0; i < layers; ++i) {
    problem.layers.push_back({.kind = "block", .parameters = 1e6});
    column.layers.push_back({.forward = 1, .backward = 2, .saved_bytes = 1e6, .output = 1e5, .working = 1e5});
  }
  problem.costs = {{.columns = {column}}};
  problem.margin = 0;
  return problem;
}

// Whole numbers and reals that depend on the seed alone, on every platform.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  int integer(int least, int most) {
    return least + static_cast<int>(engine_() % static_cast<std::uint64_t>(most - least + 1));
  }
  double real(double least, double most) {
    return least + (most - least) * (static_cast<double>(engine_() >> 11) * 0x1.0p-53);
  }
  bool chance(double probability) { return real(0, 1) < probability; }

 private:
  std::mt19937_64 engine_;
};

inline LinkSpec random_link(Dice& dice) {
  return {.latency = dice.chance(0.3) ? 0 : dice.real(0, 0.5),
          .bandwidth = dice.chance(0.2) ? 1e9 : dice.real(2, 40),
          .shared = dice.chance(0.4)};
}

struct Size {
  int most_nodes, most_devices, most_kinds, most_layers, microbatch_sizes;
};

inline Cluster random_cluster(Dice& dice, const Size& size) {
  Cluster cluster;
  const int kinds = dice.integer(1, size.most_kinds);
  for (int i = 0; i < kinds; ++i)
    cluster.kinds.push_back({.name = std::string(1, static_cast<char>('a' + i))});
  int left = dice.integer(1, size.most_devices);
  // Nodes are often identical, so that replicas can be spread over them.
  const bool like = dice.chance(0.4);
  Node pattern;
  for (int i = dice.integer(1, size.most_nodes); i > 0 && left > 0; --i) {
    Node node = pattern;
    if (!like || node.islands.empty()) {
      node = {.link = random_link(dice)};
      for (int islands = dice.chance(0.3) ? 2 : 1; islands > 0 && left > 0; --islands) {
        const int count = dice.integer(1, i == 1 ? left : std::max(1, left / 2));
        node.islands.push_back({.kind = dice.integer(0, kinds - 1), .count = count});
        left -= count;
      }
    } else {
      for (const Island& island : node.islands) left -= island.count;
      if (left < 0) break;
    }
    cluster.nodes.push_back(node);
    pattern = node;
  }
  cluster.network = random_link(dice);
  return cluster;
}

inline Problem random_problem(std::uint64_t seed, const Size& size) {
  Dice dice(seed);
  Problem problem;
  problem.cluster = random_cluster(dice, size);
  const int layers = dice.integer(1, size.most_layers);
  const bool uniform = dice.chance(0.3);
  const bool tied = layers > 1 && dice.chance(0.4);
  std::vector<LayerCost> costs;  // of one sequence, on a device of speed 1
  for (int i = 0; i < layers; ++i) {
    if (uniform && i > 0) {
      problem.layers.push_back(problem.layers.back());
      costs.push_back(costs.back());
      continue;
    }
    problem.layers.push_back({.parameters = dice.real(1, 10)});
    costs.push_back({.forward = dice.real(0.1, 2),
                     .backward = dice.real(0.1, 4),
                     .saved_bytes = dice.real(0, 10),
                     .output = dice.real(0.1, 4),
                     .working = dice.real(0, 5)});
  }
  if (tied) {
    problem.layers.front().tied = problem.layers.back().tied = 0.9;
    problem.layers.front().parameters += 0.9;
    problem.layers.back().parameters += 0.9;
  }

  double need = 0;  // of all layers on one device
  for (int i = 0; i < layers; ++i) need += 20 * problem.layers[i].parameters + 2 * costs[i].saved_bytes + 5;
  const double plenty = dice.chance(0.2) ? 0.15 : 1;
  for (DeviceKind& kind : problem.cluster.kinds) {
    kind.memory = need * dice.real(0.1, 2) * plenty;
    const double slowness = dice.real(0.5, 2), slope = dice.real(0.5, 1);
    CostTable table{.step_per_parameter = dice.chance(0.3) ? 0 : dice.real(0, 0.2)};
    for (int i = 0, b = 1; i < size.microbatch_sizes; ++i, b *= 2) {
      CostColumn column{.microbatch = b, .tokens = 0.1 * b};
      for (LayerCost cost : costs) {
        const double times = slowness * (1 + slope * (b - 1));
        cost.forward *= times;
        cost.backward *= times;
        cost.saved_bytes *= b;
        cost.output *= b;
        cost.working *= b;
        column.layers.push_back(cost);
      }
      // Not every size was measured everywhere.
      if (b == 1 || dice.chance(0.9)) table.columns.push_back(std::move(column));
    }
    problem.costs.push_back(std::move(table));
  }
  problem.state = dice.chance(0.5) ? StateBytes{4, 0, 4, 8} : StateBytes{2, 4, 4, 8};
  if (dice.chance(0.3)) problem.synchronous_state = StateBytes{2, 4, 4, 4};
  problem.batch = dice.integer(1, 16);
  problem.margin = dice.real(0, 0.2);
  if (dice.chance(0.1)) problem.fixed.recompute = dice.chance(0.5);
  if (dice.chance(0.1)) problem.fixed.double_buffer_gradients = dice.chance(0.5);
  return problem;
}

// Fixes some of the planner's choices.
inline void fix_some(std::uint64_t seed, Problem& problem) {
  Dice dice(seed);
  using schedule::Kind;
  if (dice.chance(0.4))
    problem.fixed.schedule = std::vector{Kind::TwoBW, Kind::Flush, Kind::GPipe}[dice.integer(0, 2)];
  if (dice.chance(0.3)) problem.fixed.stages = dice.integer(1, std::min<int>(3, std::ssize(problem.layers)));
  if (dice.chance(0.3)) problem.fixed.replicas = dice.integer(1, 2);
  if (dice.chance(0.3)) problem.fixed.microbatch = 1;
  if (dice.chance(0.3)) problem.fixed.microbatches = dice.integer(1, 4);
  if (dice.chance(0.5)) problem.fixed.extra = dice.integer(0, 4);
  if (dice.chance(0.5)) problem.fixed.double_buffer_gradients = dice.chance(0.3);
}

// Fixes stages one by one: recomputation always, layers in 4 of 5 problems.
inline void fix_stages(std::uint64_t seed, Problem& problem) {
  Dice dice(seed);
  const int layers = static_cast<int>(problem.layers.size());
  const int d = dice.integer(1, std::min(layers, problem.cluster.device_count()));
  problem.fixed.stages = d;
  problem.fixed.recomputing.emplace();
  for (int r = 0; r < d; ++r) {
    if (dice.chance(0.2)) problem.fixed.recomputing->push_back(r);
  }
  if (dice.chance(0.2)) return;
  problem.fixed.split.assign(d, 1);
  for (int layer = d; layer < layers; ++layer) ++problem.fixed.split[dice.integer(0, d - 1)];
}

}  // namespace twobw::planner
