// Every schedule, pipelined over threads, equals the serial oracle bit for bit.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <string_view>

#include "app/train/verify.h"
#include "core/base/error.h"
#include "core/schedule/spec.h"
#include "engine/device/cpu.h"
#include "tests/core/schedule/specs.h"
#include "tests/engine/runtime/exact.h"

namespace twobw {
namespace {

Config small_config() {
  Config config;
  config.model = {
      .layers = 3, .width = 16, .heads = 2, .vocab = 37, .context = 8, .tied = true, .dropout = 0.1};
  config.pipeline.microbatch = 2;
  config.optimizer.warmup = 2;
  config.optimizer.lr = 1e-2;
  config.optimizer.clip = 0.5;
  config.train.updates = 9;
  config.train.eval_every = 4;
  config.train.eval_microbatches = 2;
  return config;
}

struct Case {
  const char* schedule;
  std::vector<int> split;  // of 17 layers: embedding, 3 x (attention_in, attention_out, mlp_up,
                           // mlp_activation, mlp_down), head
  int m;
  int e;
  int sync_updates;
  std::vector<int> recompute;
  int w = 1;
  bool second_gradient = true;
  bool predict = false;
  int slack = 1;
  bool late_tie = false;
};

class Exactness : public testing::TestWithParam<Case> {};

TEST_P(Exactness, PipelineEqualsOracle) {
  const Case& c = GetParam();
  Config config = small_config();
  config.pipeline.schedule = schedule::parse_kind(c.schedule);
  config.pipeline.stages = static_cast<int>(c.split.size());
  config.pipeline.split = c.split;
  config.pipeline.microbatches = c.m;
  config.pipeline.extra = c.e;
  config.pipeline.sync_updates = c.sync_updates;
  config.pipeline.recompute = c.recompute;
  config.pipeline.replicas = c.w;
  config.pipeline.second_gradient = c.second_gradient;
  config.pipeline.slack = c.slack;
  config.pipeline.late_tie = c.late_tie;
  if (!c.predict) config.pipeline.predict = false;
  expect_exact(config);
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const char* schedule : {"sequential", "gpipe", "flush", "2bw", "stash"}) {
    for (const auto& split :
         std::vector<std::vector<int>>{{17}, {4, 13}, {1, 4, 12}, {1, 9, 6, 1}, {2, 5, 5, 5}}) {
      const int d = static_cast<int>(split.size());
      cases.push_back({schedule, split, std::max(1, d - 1), 0, 0, {}});  // the smallest m of 2bw
      cases.push_back({schedule, split, 4, 0, 3, {d - 1}});
      cases.push_back({schedule, split, d + 1, 2, 2, {0}});
      if (d > 3) continue;
      for (int w : {2, 3}) {
        cases.push_back({schedule, split, std::max(1, d - 1), 0, 0, {}, w});
        cases.push_back({schedule, split, 3, 0, 3, {d - 1}, w});
        cases.push_back({schedule, split, d + 2, 2, 1, {0}, w});
      }
    }
  }
  return cases;
}

std::vector<Case> one_gradient_cases() {
  std::vector<Case> cases;
  for (const Case& c : all_cases()) {
    if (std::string_view(c.schedule) != "2bw") continue;
    cases.push_back(c);
    cases.back().second_gradient = false;
  }
  return cases;
}

std::vector<Case> predicted_cases() {
  std::vector<Case> cases;
  for (const auto& split :
       std::vector<std::vector<int>>{{17}, {4, 13}, {1, 4, 12}, {1, 9, 6, 1}, {2, 5, 5, 5}}) {
    const int d = static_cast<int>(split.size());
    for (const bool second : {true, false}) {
      for (const int w : {1, 2, 3}) {
        if (d > 3 && w > 1) continue;
        cases.push_back({"2bw", split, d, 0, 0, {}, w, second, true});  // the smallest m
        cases.push_back({"2bw", split, 2 * d, 0, 3, {d - 1}, w, second, true});
        cases.push_back({"2bw", split, d + 3, 2, 1, {0}, w, second, true});
        cases.push_back({"2bw", split, 2 * d + 3, 1, 1, {0}, w, second, true, 2});
        if (w == 1) cases.push_back({"2bw", split, 2 * d, 0, 0, {}, w, second, true, 0});
      }
    }
  }
  return cases;
}

// The first stage takes its part of the tie when it steps, which is late.
std::vector<Case> late_cases() {
  std::vector<Case> cases;
  for (const auto& split : std::vector<std::vector<int>>{{4, 13}, {1, 4, 12}, {1, 9, 6, 1}, {2, 5, 5, 5}}) {
    const int d = static_cast<int>(split.size());
    for (const bool predict : {true, false}) {
      const Case like{"2bw", split, d, 0, 0, {}, 1, true, predict, 1, true};
      const auto add = [&](int m, int e, int sync_updates, std::vector<int> recompute, int slack) {
        Case c = like;
        c.m = m, c.e = e, c.sync_updates = sync_updates, c.recompute = std::move(recompute), c.slack = slack;
        cases.push_back(std::move(c));
      };
      add(d, 0, 0, {}, 1);
      add(2 * d, 0, 3, {0}, 1);
      add(2 * d + 4, 1, 0, {}, 3);
      add(2 * d, 0, 0, {d - 1}, 0);
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(LateTie, Exactness, testing::ValuesIn(late_cases()), [](const auto& info) {
  const Case& c = info.param;
  return fmt::format("d{}_{}_m{}_e{}_sync{}_{}", c.split.size(), info.index, c.m, c.e, c.sync_updates,
                     c.predict ? "predicted" : "paper");
});

INSTANTIATE_TEST_SUITE_P(Predicted, Exactness, testing::ValuesIn(predicted_cases()), [](const auto& info) {
  const Case& c = info.param;
  return fmt::format("w{}_d{}_{}_m{}_e{}_sync{}_{}", c.w, c.split.size(), info.index, c.m, c.e,
                     c.sync_updates, c.second_gradient ? "two" : "one");
});

INSTANTIATE_TEST_SUITE_P(OneGradientBuffer, Exactness, testing::ValuesIn(one_gradient_cases()),
                         [](const auto& info) {
                           const Case& c = info.param;
                           return fmt::format("w{}_d{}_{}_m{}_e{}_sync{}", c.w, c.split.size(), info.index,
                                              c.m, c.e, c.sync_updates);
                         });

INSTANTIATE_TEST_SUITE_P(Schedules, Exactness, testing::ValuesIn(all_cases()), [](const auto& info) {
  const Case& c = info.param;
  return fmt::format("{}_w{}_d{}_{}_m{}_e{}_sync{}", c.schedule, c.w, c.split.size(), info.index, c.m, c.e,
                     c.sync_updates);
});

TEST(ExactnessTest, UntiedSgdUnderThePapersRule) {
  Config config = small_config();
  config.model.tied = false;
  config.pipeline.stages = 3;
  config.pipeline.split = {5, 6, 6};
  config.pipeline.microbatches = 3;
  config.optimizer.name = "sgd";
  config.optimizer.lr = 0.05;
  config.pipeline.predict = false;
  for (int w : {1, 2, 3}) {
    config.pipeline.replicas = w;
    expect_exact(config);
  }
}

TEST(ExactnessTest, EveryOptimizerPredicts) {
  Config config = small_config();
  config.model.tied = false;
  config.pipeline.stages = 3;
  config.pipeline.split = {5, 6, 6};
  config.pipeline.microbatches = 4;
  for (const auto& [name, lr] :
       {std::pair("sgd", 0.05), std::pair("lion", 1e-3), std::pair("lamb", 1e-2), std::pair("muon", 1e-2)}) {
    config.optimizer.name = name;
    config.optimizer.lr = lr;
    for (int w : {1, 2}) {
      config.pipeline.replicas = w;
      expect_exact(config);
    }
  }
}

TEST(ExactnessTest, GroupsHoldOnEveryStageThatHasTheirParameters) {
  Config config = small_config();
  config.optimizer.groups = {"embedding.tokens lr=1e-3 weight_decay=0", "*.weight weight_decay=0.3",
                             "*bias lr=0"};
  for (const char* name : {"adamw", "muon", "lamb"}) {
    config.optimizer.name = name;
    for (const auto& split : std::vector<std::vector<int>>{{17}, {5, 6, 6}}) {
      config.pipeline.stages = static_cast<int>(split.size());
      config.pipeline.split = split;
      config.pipeline.microbatches = 4;
      expect_exact(config);
    }
  }
}

TEST(ExactnessTest, UpdatesThatAreNotFiniteAreSkippedByAllAlike) {
  Config config = small_config();
  config.pipeline.stages = 2;
  config.pipeline.split = {7, 10};
  config.pipeline.microbatches = 2;
  config.optimizer.lr = 1e30;  // the first update throws the weights far out: nothing after is finite
  config.optimizer.clip = 0;
  device::initialize();
  for (int w : {1, 2, 3}) {
    for (bool second_gradient : {true, false}) {
      config.pipeline.replicas = w;
      config.pipeline.second_gradient = config.pipeline.late_tie = second_gradient;
      for (bool predict : {true, false}) {
        config.pipeline.predict = predict;
        const train::Verification result = train::verify(config);
        EXPECT_TRUE(result.equal) << "w=" << w << " " << result.difference;
        EXPECT_GT(result.skipped, 0);
      }
    }
  }
}

TEST(ExactnessTest, SynchronousSchedulesAreOneAnother) {
  Config config = small_config();
  config.pipeline.stages = 3;
  config.pipeline.split = {6, 6, 5};
  config.pipeline.replicas = 2;
  for (const char* schedule : {"sequential", "gpipe", "flush"}) {
    for (const char* against : {"sequential", "gpipe", "flush"}) {
      config.pipeline.schedule = twobw::schedule::parse_kind(schedule);
      const train::Verification result = train::verify(config, {.against = against});
      EXPECT_TRUE(result.equal) << schedule << " against " << against << ": " << result.difference;
    }
  }
}

TEST(ExactnessTest, ADifferentRuleIsFoundOutAtTheFirstUpdateItChanges) {
  Config config = small_config();
  config.pipeline.schedule = ScheduleKind::TwoBW;
  config.pipeline.stages = 2;
  config.pipeline.split = {7, 10};
  // Batch 0 runs on W(0) under both rules; batch 1 on W(0) under 2bw and on W(1) under flush.
  const train::Verification result = train::verify(config, {.against = "flush"});
  EXPECT_FALSE(result.equal);
  EXPECT_TRUE(result.difference.starts_with("update 1: loss")) << result.difference;

  config.pipeline.replicas = 2;
  EXPECT_TRUE(train::verify(config, {.against = "flush"}).difference.starts_with("update 1: loss"));
  EXPECT_TRUE(train::verify(config, {.against = "2bw"}).equal);

  // Before any update no clipping factor is known: batch 1 is predicted from the weight decay alone.
  config.pipeline.replicas = 1;
  config.pipeline.predict = false;
  EXPECT_TRUE(train::verify(config, {.against = "flush"}).difference.starts_with("update 1: loss"));
}

TEST(ExactnessTest, NeverMoreThanTwoVersionsUnder2BW) {
  Config config = small_config();
  config.pipeline.stages = 4;
  config.pipeline.split = {5, 5, 4, 3};
  config.pipeline.microbatches = 6;
  config.pipeline.extra = 2;
  for (int w : {1, 2}) {
    config.pipeline.replicas = w;
    const train::Verification result = train::verify(config);
    EXPECT_TRUE(result.equal) << result.difference;
    for (int versions : result.peak_versions) EXPECT_LE(versions, 2);
    EXPECT_EQ(result.peak_versions.front(), 2);
    config.pipeline.second_gradient = false;
    EXPECT_EQ(train::verify(config).peak_versions, (std::vector<int>{2, 2, 2, 1}));
    config.pipeline.predict = false;
    EXPECT_EQ(train::verify(config).peak_versions, std::vector<int>(4, 2));
    config.pipeline.second_gradient = config.pipeline.predict = true;
  }
}

TEST(ExactnessTest, OneStageWithReplicasKeepsOneVersion) {
  Config config = small_config();
  config.pipeline.stages = 1;
  config.pipeline.replicas = 2;
  const train::Verification result = train::verify(config);
  EXPECT_TRUE(result.equal) << result.difference;
  EXPECT_EQ(result.peak_versions, std::vector<int>{1});
}

}  // namespace
}  // namespace twobw
