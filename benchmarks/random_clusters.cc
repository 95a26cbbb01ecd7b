// Quality of the search: on random clusters, whether a choice with schedule, replicas and stages fixed is
// faster than the free one. Prints a line for every cluster and the misses, by simulated tokens per second.
// Usage: planner_quality [FIRST_SEED [CLUSTERS [STEP]]]
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <initializer_list>
#include <string>

#include "core/base/error.h"
#include "planning/planner/costs/simulated_cost.h"
#include "planning/planner/costs/stage_timing.h"
#include "planning/planner/search/preference.h"
#include "planning/planner/search/space.h"
#include "tests/planning/planner/networks.h"
#include "tests/planning/planner/problems.h"

namespace {

using namespace twobw;
using namespace twobw::planner;
using schedule::Kind;

constexpr Preferences kFastest{.tolerance = 0, .cushion = false, .predict_well = 0};
constexpr double kMiss = 0.02;  // of the throughput

template <class T>
T one_of(Dice& dice, std::initializer_list<T> values) {
  return *(values.begin() + dice.integer(0, static_cast<int>(values.size()) - 1));
}

// One to four kinds of nodes with one or two kinds of devices, at most 16 devices.
Cluster cluster_of(Dice& dice) {
  Cluster cluster;
  for (const int kinds = dice.integer(1, 2); std::ssize(cluster.kinds) < kinds;)
    cluster.kinds.push_back(
        known_device(one_of(dice, {"V100-16GB", "A100-40GB", "H100", "RTX 4090", "T4", "L4"})));
  int left = 16;
  for (int groups = dice.integer(1, 4); groups > 0; --groups) {
    Node node{.link = {.latency = one_of(dice, {5e-6, 10e-6}),
                       .bandwidth = one_of(dice, {1e9, 12e9, 25e9, 150e9, 300e9}),
                       .shared = dice.chance(0.25)}};
    node.islands = {{.kind = dice.integer(0, static_cast<int>(cluster.kinds.size()) - 1),
                     .count = one_of(dice, {1, 1, 2, 3, 4, 6, 8})}};
    if (dice.chance(0.15)) node.islands.push_back({.kind = 0, .count = dice.integer(1, 2)});
    int devices = 0;
    for (const Island& island : node.islands) devices += island.count;
    for (int like = one_of(dice, {1, 1, 2, 4}); like > 0 && devices <= left; --like) {
      cluster.nodes.push_back(node);
      left -= devices;
    }
  }
  cluster.network = {.latency = one_of(dice, {5e-6, 30e-6, 200e-6, 2e-3}),
                     .bandwidth = one_of(dice, {1e9, 10e9, 25e9, 100e9, 400e9}) / 8,
                     .shared = dice.chance(0.5)};
  return cluster;
}

Problem problem_of(std::uint64_t seed) {
  Dice dice(seed);
  const Cluster cluster = cluster_of(dice);
  ModelConfig model = gpt_model(one_of(dice, {4, 8, 12, 24, 36}), one_of(dice, {256, 512, 1024, 2048}),
                                one_of(dice, {128, 512, 1024, 2048}));
  model.vocab = one_of(dice, {256, 8192, 51200});
  model.tied = dice.chance(0.5);
  Problem problem = problem_on(cluster, model, one_of(dice, {8, 32, 128, 512}));
  problem.fixed.predict = dice.chance(0.75);
  return problem;
}

// Tokens a second by the simulator; 0: no plan.
double rate_of(const Problem& problem, std::string& plan) {
  try {
    const SearchResult result = search_with(problem, kFastest, {.suggestions = false});
    if (!result.best) return 0;
    plan = in_short(result.best->plan);
    return simulated_tokens_per_s(problem, result.best->plan);
  } catch (const InputError&) {
    return 0;  // contradicts the cluster, the batch or the layers
  }
}

// Tokens a second that no plan of the choice exceeds: every layer on its fastest device, free links.
double at_most(const Problem& problem, const PartialShape& fixed) {
  double most = 0;
  for (const int b : microbatches_to_try(problem)) {
    double all = 0, slowest = 0;
    for (std::size_t layer = 0; layer < problem.layers.size(); ++layer) {
      double least = 1e30;
      for (const Node& node : problem.cluster.nodes) {
        for (const Island& island : node.islands) {
          const CostColumn* column = column_of(problem, island.kind, b);
          if (column != nullptr)
            least = std::min(least, column->layers[layer].forward + column->layers[layer].backward);
        }
      }
      all += least;
      slowest = std::max(slowest, least);
    }
    const double m = microbatch_count(problem, *fixed.replicas, b);
    const double pace = std::max(slowest, all / *fixed.stages);
    const double update = *fixed.schedule == Kind::TwoBW        ? m * pace
                          : *fixed.schedule == Kind::Sequential ? m * all
                                                                : all + (m - 1) * pace;
    if (m > 0) most = std::max(most, m * b * *fixed.replicas * problem.context / update);
  }
  return most;
}

// By how much the best fixed choice is faster, of the free one. Only choices that may be are searched.
double miss_of(std::uint64_t seed) {
  const Problem problem = problem_of(seed);
  const std::clock_t begin = std::clock();
  std::string chosen = "none";
  const double free = rate_of(problem, chosen);
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  double best = free;
  std::string best_fixed = chosen;
  Problem fixed = problem;
  for (const Kind schedule : schedules_to_try(problem)) {
    for (const int replicas : replicas_to_try(problem)) {
      const int most = problem.cluster.device_count() / replicas;
      for (int stages = 1; stages <= std::min(most, static_cast<int>(problem.layers.size())); ++stages) {
        if (stages == 1 && schedule != Kind::TwoBW && schedule != Kind::Flush) continue;  // as flush
        fixed.fixed.schedule = schedule;
        fixed.fixed.replicas = replicas;
        fixed.fixed.stages = stages;
        if (at_most(problem, fixed.fixed) <= std::max(best, free * (1 + kMiss))) continue;
        std::string plan;
        const double rate = rate_of(fixed, plan);
        if (rate <= best) continue;
        best = rate;
        best_fixed = plan;
      }
    }
  }
  const double miss = best > 0 ? best / std::max(free, 1e-9) - 1 : 0;
  fmt::print("{:>6} {:>3} devices, {:>3} layers {:.3f} s  {:>9.1f}K {:<32} {:>9.1f}K {:<32} {:+.1f}%{}\n",
             seed, problem.cluster.device_count(), problem.layers.size(), seconds, free / 1e3, chosen,
             best / 1e3, best_fixed, 100 * miss, miss > kMiss ? "  MISS" : "");
  std::fflush(stdout);
  return miss;
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int i, int otherwise) { return argc > i ? std::atoi(argv[i]) : otherwise; };
  const int first = argument(1, 0), clusters = argument(2, 20), step = argument(3, 1);
  int misses = 0;
  for (int i = 0; i < clusters; ++i) misses += miss_of(static_cast<std::uint64_t>(first + i * step)) > kMiss;
  fmt::print("{} of {} clusters missed by more than {:.0f}%\n", misses, clusters, 100 * kMiss);
}
