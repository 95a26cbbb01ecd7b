#include "app/measure/split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "core/base/error.h"
#include "engine/device/device.h"
#include "engine/runtime/setup.h"
#include "tests/support/refusal.h"

namespace twobw::measure {
namespace {

// The fastest split of layers with these seconds per microbatch, a third of them forward.
std::vector<int> split_of(const std::vector<double>& seconds, const PipelineShape& shape) {
  planner::CostColumn column{.microbatch = shape.microbatch};
  std::vector<planner::LayerShape> layers;
  for (const double cost : seconds) {
    column.layers.push_back({.forward = cost, .backward = 2 * cost});
    layers.push_back({.kind = "layer", .parameters = 1});
  }
  return fastest_split({.shape = shape}, layers, {.columns = {column}, .step_per_parameter = 0});
}

double largest_part(const std::vector<double>& costs, const std::vector<int>& split) {
  double largest = 0;
  auto begin = costs.begin();
  for (int count : split) {
    largest = std::max(largest, std::accumulate(begin, begin + count, 0.0));
    begin += count;
  }
  return largest;
}

// The smallest possible largest part, by trying every way to cut.
double best_by_trying_all(const std::vector<double>& costs, int stages) {
  const int gaps = static_cast<int>(costs.size()) - 1;
  double best = std::numeric_limits<double>::infinity();
  for (unsigned cuts = 0; cuts < 1u << gaps; ++cuts) {
    if (__builtin_popcount(cuts) != stages - 1) continue;
    std::vector<int> split(1, 1);
    for (int gap = 0; gap < gaps; ++gap) {
      if (cuts >> gap & 1) split.push_back(0);
      ++split.back();
    }
    best = std::min(best, largest_part(costs, split));
  }
  return best;
}

// Every stage has a layer, every layer a stage, and no other cut has a smaller largest part.
void expect_balanced(const std::vector<double>& costs, const PipelineShape& shape) {
  const std::vector<int> split = split_of(costs, shape);
  ASSERT_EQ(static_cast<int>(split.size()), shape.stages);
  EXPECT_EQ(std::accumulate(split.begin(), split.end(), 0), static_cast<int>(costs.size()));
  EXPECT_GE(*std::min_element(split.begin(), split.end()), 1);
  EXPECT_DOUBLE_EQ(largest_part(costs, split), best_by_trying_all(costs, shape.stages));
}

// Up to nine layers of unlike costs, and some number of stages for them.
class RandomLayers {
 public:
  explicit RandomLayers(unsigned seed) : random_(seed) {}

  std::vector<double> costs() {
    std::vector<double> costs(1 + random_() % 9);
    for (double& cost : costs) cost = 1 + static_cast<double>(random_() % 50);
    return costs;
  }
  int stages_of(const std::vector<double>& costs) {
    return 1 + static_cast<int>(random_() % std::min<std::size_t>(costs.size(), 5));
  }

 private:
  std::mt19937 random_;
};

// Two gradient buffers leave the slowest stage as the only limit. The planner does not know stash, which
// may have too few microbatches for one.
TEST(FastestSplit, IsAsGoodAsTryingEverySplit) {
  RandomLayers layers(1);
  for (int round = 0; round < 60; ++round) {
    const std::vector<double> costs = layers.costs();
    const int n = layers.stages_of(costs);
    for (const int m : {n, 3 * n})
      expect_balanced(costs, {.schedule = ScheduleKind::TwoBW, .stages = n, .microbatches = m});
    expect_balanced(costs,
                    {.schedule = ScheduleKind::Flush, .stages = n, .replicas = 2, .microbatches = n + 2});
    for (const int m : {2, 6})
      expect_balanced(costs, {.schedule = ScheduleKind::Stash, .stages = n, .microbatches = m});
  }
}

TEST(FastestSplit, GivesAHeavyHeadFewerNeighbours) {
  EXPECT_EQ(split_of({1, 1, 1, 1, 1, 1, 4}, {.stages = 2}), (std::vector<int>{5, 2}));
  EXPECT_EQ(split_of({1, 1, 1, 1, 1, 1, 3}, {.stages = 3}), (std::vector<int>{3, 3, 1}));
}

TEST(FastestSplit, IsThereForEverySchedule) {
  for (const ScheduleKind schedule : all_kinds()) {
    for (const bool double_buffer_gradients : {true, false}) {
      const std::vector<int> split =
          split_of({3, 1, 4, 1, 5, 9, 2, 6}, {.schedule = schedule,
                                              .stages = 3,
                                              .microbatch = 2,
                                              .microbatches = 6,
                                              .extra = 1,
                                              .double_buffer_gradients = double_buffer_gradients});
      ASSERT_EQ(split.size(), 3u) << name(schedule);
      EXPECT_EQ(std::accumulate(split.begin(), split.end(), 0), 8) << name(schedule);
    }
  }
}

Config tiny_gpt(int stages) {
  device::initialize();
  Config config;
  config.model = {.layers = 2, .width = 16, .heads = 2, .vocab = 32, .context = 8};
  config.pipeline.stages = stages;
  return config;
}

TEST(ChosenSplit, IsMeasuredAndCoversTheModel) {
  auto setup = runtime::prepare(tiny_gpt(3));
  choose_split(setup);
  EXPECT_EQ(setup.spec.shape.split.size(), 3u);
  EXPECT_EQ(std::accumulate(setup.spec.shape.split.begin(), setup.spec.shape.split.end(), 0),
            setup.model.size());
  EXPECT_EQ(static_cast<int>(setup.layer_seconds.size()), setup.model.size());
  for (double seconds : setup.layer_seconds) EXPECT_GT(seconds, 0);
}

TEST(ChosenSplit, IsTheConfigurationsWhereItHasOne) {
  Config config = tiny_gpt(3);
  config.pipeline.split = {10, 1, 1};
  auto setup = runtime::prepare(config);
  choose_split(setup);
  EXPECT_EQ(setup.spec.shape.split, (std::vector<int>{10, 1, 1}));
  EXPECT_TRUE(setup.layer_seconds.empty());  // nothing was measured
}

TEST(ChosenSplit, OfOneStageNeedsNoMeasurement) {
  auto setup = runtime::prepare(tiny_gpt(1));
  choose_split(setup);
  EXPECT_EQ(setup.spec.shape.split, std::vector<int>{12});
  EXPECT_TRUE(setup.layer_seconds.empty());
}

TEST(Setup, MoreStagesThanLayersAreRefused) {
  Config config;
  config.model.layers = 1;
  config.pipeline.stages = 8;
  const std::string sentence = error_of([&] { runtime::prepare(config); });
  EXPECT_NE(sentence.find("at most 7 stages"), std::string::npos) << sentence;
}

}  // namespace
}  // namespace twobw::measure
