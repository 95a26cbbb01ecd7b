// Replicas that share the optimizer's state (pipeline.shard_state) compute what those do that keep all of it:
// the bits of the serial oracle. And each keeps its part alone.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/device/cpu.h"
#include "engine/models/model.h"
#include "engine/optim/shards.h"
#include "engine/runtime/sum_ranges.h"
#include "tests/engine/runtime/exact.h"
#include "tests/engine/runtime/exact_ranks.h"
#include "tests/engine/runtime/shard_memory.h"
#include "tests/engine/runtime/short_config.h"

namespace twobw::runtime {
namespace {

using transport::wire_kinds;

struct ShardedCase {
  const char* schedule;
  std::vector<int> split;  // of 12 layers: embedding, 2 x 5, head
  int w = 2;
  int m = 4;
  bool predict = true;
  const char* optimizer = "adamw";
  const char* precision = "fp32";
  bool second_gradient = true;
  int sync_updates = 0;
  int slack = 1;
  int e = 0;
};

Config sharded_config(const ShardedCase& given) {
  Config config = short_config(given.schedule, given.split, given.w, given.m);
  config.pipeline.predict = given.predict;
  config.pipeline.second_gradient = given.second_gradient;
  config.pipeline.sync_updates = given.sync_updates;
  config.pipeline.slack = given.slack;
  config.pipeline.extra = given.e;
  config.pipeline.shard_state = true;
  config.optimizer.name = given.optimizer;
  config.train.precision = given.precision;
  if (config.train.precision != "fp32") put_on_one_core(config);
  return config;
}

std::string name_of(const ShardedCase& c, std::size_t index) {
  return fmt::format("{}_{}_w{}_d{}_m{}_{}_{}{}{}", index, c.schedule, c.w, c.split.size(), c.m, c.optimizer,
                     c.precision, c.predict ? "" : "_delayed", c.second_gradient ? "" : "_one");
}

std::vector<ShardedCase> sharded_cases() {
  const std::vector<int> one = {12}, two = {5, 7}, three = {1, 6, 5};
  std::vector<ShardedCase> cases;
  for (const int w : {2, 3}) {
    for (const char* schedule : {"sequential", "gpipe", "flush", "stash"}) {
      cases.push_back({schedule, one, w});
      cases.push_back({schedule, two, w});
    }
    for (const bool predict : {true, false}) {
      for (const bool second : {true, false}) {
        cases.push_back({"2bw", one, w, 4, predict, "adamw", "fp32", second});
        cases.push_back({"2bw", two, w, 2, predict, "adamw", "fp32", second});  // all on P
        cases.push_back({"2bw", two, w, 6, predict, "adamw", "fp32", second});  // some on W
        cases.push_back({"2bw", three, w, 5, predict, "adamw", "fp32", second, 2, 1, 1});
      }
      for (const char* optimizer : {"sgd", "lion", "lamb", "muon"})
        cases.push_back({"2bw", w == 2 ? two : one, w, w == 2 ? 4 : 3, predict, optimizer});
      cases.push_back({"2bw", two, w, 2, predict, "adamw", w == 2 ? "bf16" : "fp16"});
      cases.push_back({"2bw", two, w, 6, predict, "muon", w == 2 ? "fp16" : "bf16"});
    }
    cases.push_back({"flush", two, w, 4, true, "muon"});
    cases.push_back({"flush", two, w, 4, true, "adamw", "bf16"});
    cases.push_back({"stash", three, w, 3, true, "sgd", "bf16"});
  }
  cases.push_back({"2bw", {1, 1, 9, 1}, 2, 8});  // a stage of an embedding and one of a few biases
  return cases;
}

class Sharded : public testing::TestWithParam<ShardedCase> {};

INSTANTIATE_TEST_SUITE_P(Schedules, Sharded, testing::ValuesIn(sharded_cases()),
                         [](const auto& info) { return name_of(info.param, info.index); });

TEST_P(Sharded, EqualsTheOracle) {
  device::initialize();
  const Config config = sharded_config(GetParam());
  const train::Verification result = train::verify(config);
  EXPECT_TRUE(result.equal) << result.difference << "\n" << to_yaml(config);
}

TEST(ShardedPipeline, UpdatesThatAreNotFiniteAreSkippedByAllAlike) {
  for (const bool predict : {true, false}) {
    Config config = sharded_config({"2bw", {5, 7}, 2, 4, predict});
    config.optimizer.lr = 1e30;
    config.optimizer.clip = 0;
    device::initialize();
    const train::Verification result = train::verify(config);
    EXPECT_TRUE(result.equal) << result.difference;
    EXPECT_GT(result.skipped, 0);
  }
}

// One replica has nothing to share with.
TEST(ShardedPipeline, OneReplicaKeepsAll) {
  expect_exact(sharded_config({"2bw", {5, 7}, 1}));
}

struct SpreadShards {
  ShardedCase of;
  int processes;
};

class ShardedOver : public testing::TestWithParam<SpreadShards> {};

std::vector<SpreadShards> spread_shards() {
  const std::vector<int> one = {12}, two = {5, 7};
  std::vector<SpreadShards> cases;
  for (const bool predict : {true, false}) {
    cases.push_back({{"2bw", two, 2, 4, predict}, 2});  // a replica a process
    cases.push_back({{"2bw", two, 2, 6, predict}, 4});  // a worker a process
    cases.push_back({{"2bw", two, 4, 2, predict}, 2});  // two replicas a process
    cases.push_back({{"2bw", two, 3, 4, predict}, 2});  // three workers a process
    cases.push_back({{"2bw", one, 4, 2, predict}, 4});  // data parallel
    cases.push_back({{"2bw", two, 2, 4, predict, "muon"}, 2});
  }
  cases.push_back({{"flush", two, 2}, 2});
  cases.push_back({{"gpipe", two, 3}, 3});
  cases.push_back({{"stash", two, 2}, 4});
  cases.push_back({{"2bw", two, 2, 4, true, "adamw", "fp32", false, 2}, 4});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Processes, ShardedOver, testing::ValuesIn(spread_shards()), [](const auto& info) {
  return fmt::format("{}_p{}", name_of(info.param.of, info.index), info.param.processes);
});

TEST_P(ShardedOver, WiresInMemory) {
  expect_exact_over(Ranks(GetParam().processes, wire_kinds().front()), sharded_config(GetParam().of));
}

TEST(ShardedPipeline, EqualsTheOracleOverGloo) {
  const transport::WireKind gloo = wire_kinds().back();
  if (gloo.is_missing) GTEST_SKIP() << "built without Gloo";
  expect_exact_over(Ranks(2, gloo), sharded_config({"2bw", {5, 7}, 2, 4}));
  expect_exact_over(Ranks(2, gloo), sharded_config({"2bw", {5, 7}, 4, 6, false}));
}

TEST(ShardedMemory, IsTheForecastOfAReplicasPart) {
  for (const char* precision : {"fp32", "bf16"}) {
    for (const int w : {2, 3, 4}) {
      Config config = sharded_config({"2bw", {6, 6}, w, 4, true, "adamw", precision});
      config.model.tied = false;
      config.model.width = 64;
      config.model.vocab = 256;
      config.train.updates = 3;
      expect_memory_of_shards(config);
    }
  }
}

TEST(SumRangesTest, WhatIsTiedGoesToAllAndTheRestToItsOwner) {
  const models::Model model = models::build(sharded_config({"2bw", {12}}).model);
  const OptimizerConfig optimizer;
  for (const auto& [first, last] : {std::pair(0, 12), std::pair(0, 5), std::pair(5, 12)}) {
    const weights::Layout layout(model.layers, first, last);
    const std::vector<weights::Range> shards = optim::shards_of(optimizer, layout, 3);
    for (const Ties ties : {Ties::All, Ties::WithinTheStage}) {
      std::int64_t at = 0, everywhere = 0;
      for (const transport::SumRange& range : sum_ranges(layout, shards, ties)) {
        EXPECT_EQ(range.begin, at);
        at = range.end();
        if (range.owner == transport::SumRange::kAll) {
          everywhere += range.count;
        } else {
          EXPECT_GE(range.begin, shards[range.owner].begin);
          EXPECT_LE(range.end(), shards[range.owner].end());
        }
      }
      EXPECT_EQ(at, layout.gradient_size());
      const bool both = first == 0 && last == 12;
      const std::int64_t tied = 37 * 16, alias = layout.gradient_size() - layout.size();
      EXPECT_EQ(everywhere, both ? tied + alias : ties == Ties::All ? tied : 0);
    }
  }
}

}  // namespace
}  // namespace twobw::runtime
