#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "base/error.h"
#include "runtime/setup.h"

namespace twobw::measure {
namespace {

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

TEST(Balance, IsAsGoodAsTryingEverySplit) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const int layers = 1 + static_cast<int>(random() % 10);
    const int stages = 1 + static_cast<int>(random() % layers);
    std::vector<double> costs(layers);
    for (double& cost : costs) cost = 1 + static_cast<double>(random() % 50);
    const std::vector<int> split = balance(costs, stages);
    ASSERT_EQ(static_cast<int>(split.size()), stages);
    EXPECT_EQ(std::accumulate(split.begin(), split.end(), 0), layers);
    EXPECT_GE(*std::min_element(split.begin(), split.end()), 1);
    EXPECT_DOUBLE_EQ(largest_part(costs, split), best_by_trying_all(costs, stages));
  }
}

TEST(Balance, GivesTheHeavyHeadFewerCompanions) {
  EXPECT_EQ(balance({1, 1, 1, 1, 1, 1, 4}, 2), (std::vector<int>{5, 2}));
}

TEST(Setup, ExtrapolationIsForSchedulesWithADelay) {
  Config config;
  config.optimizer.extrapolate_update = {0.5};
  config.optimizer.extrapolate_weights = {1.0};
  for (const char* schedule : {"sequential", "gpipe", "flush", "2bw", "stash"}) {
    config.pipeline.schedule = schedule;
    const bool delayed = schedule::is_delayed(schedule::parse_kind(schedule));
    const auto setup = prepare(config);
    EXPECT_EQ(setup.config.optimizer.extrapolate_update.empty(), !delayed) << schedule;
    EXPECT_EQ(setup.config.optimizer.extrapolate_weights.empty(), !delayed) << schedule;
  }
}

TEST(Setup, AMeasuredSplitCoversTheModel) {
  Config config;
  config.model = {.layers = 2, .width = 16, .heads = 2, .vocab = 32, .context = 8};
  config.pipeline.stages = 3;
  auto setup = prepare(config);
  choose_split(setup);
  EXPECT_EQ(std::accumulate(setup.split.begin(), setup.split.end(), 0), static_cast<int>(setup.model.size()));
  EXPECT_EQ(setup.layer_seconds.size(), setup.model.size());
  for (double seconds : setup.layer_seconds) EXPECT_GT(seconds, 0);
}

TEST(Setup, MoreStagesThanLayersAreRefused) {
  Config config;
  config.model.layers = 1;
  config.pipeline.stages = 8;
  try {
    prepare(config);
    FAIL() << "not refused";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("at most 7 stages"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace twobw::measure
