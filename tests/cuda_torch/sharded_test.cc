// What replicas on a GPU that share the optimizer's state save, go on from and keep: the same snapshots as of
// others, and a part of the state each.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/config.h"
#include "device/gpu_thread.h"
#include "models/model.h"
#include "optim/shards.h"
#include "planner/costs/memory_model.h"
#include "planner/costs/state_bytes.h"
#include "tests/runtime/recorder.h"

namespace twobw::runtime {
namespace {

// Two stages of 11 layers.
Config small_config(const std::vector<std::string>& more) {
  std::vector<std::string> settings = {
      "model.layers=4",          "model.width=256",           "model.heads=4",
      "model.vocab=512",         "model.context=128",         "pipeline.microbatch=2",
      "pipeline.microbatches=4", "train.updates=5",           "optimizer.warmup=2",
      "train.eval_every=2",      "train.eval_microbatches=2", "train.deterministic=true",
      "pipeline.stages=2",       "pipeline.split=[11,11]",    "pipeline.replicas=2",
      "devices=[cuda:0/4]"};
  settings.insert(settings.end(), more.begin(), more.end());
  return load_config("", settings);
}

struct SavedCase {
  const char* name;
  std::vector<std::string> settings;
};

class SavedOnGpu : public testing::TestWithParam<SavedCase> {
 protected:
  void SetUp() override {
    if (device::gpu_count() == 0) GTEST_SKIP() << "no GPU here";
  }
  void TearDown() override { at::globalContext().setDeterministicAlgorithms(false, false); }
};

INSTANTIATE_TEST_SUITE_P(
    Sharded, SavedOnGpu,
    testing::Values(SavedCase{"twobw_bf16", {"pipeline.schedule=2bw", "train.precision=bf16"}},
                    SavedCase{"all_predicted", {"pipeline.schedule=2bw", "pipeline.microbatches=2"}},
                    SavedCase{"paper", {"pipeline.schedule=2bw", "pipeline.predict=false"}},
                    SavedCase{"flush", {"pipeline.schedule=flush"}},
                    SavedCase{"muon_bf16",
                              {"pipeline.schedule=2bw", "optimizer.name=muon", "train.precision=bf16"}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_P(SavedOnGpu, ContinuesOneKindFromTheOther) {
  const Config config = small_config(GetParam().settings);
  Config sharded = config;
  sharded.pipeline.shard_state = true;
  Recorder whole, shared;
  run_recorded(config, nullptr, whole);
  run_recorded(sharded, nullptr, shared);
  ASSERT_FALSE(whole.snapshots.empty());
  expect_same_tail(whole, shared, 0);
  expect_same_snapshots(whole, shared, 0);
  EXPECT_EQ(whole.snapshots.size(), shared.snapshots.size());
  for (const std::int64_t cut : {1, 3}) {
    SCOPED_TRACE(fmt::format("from the cut after {} updates", cut));
    Recorder to_shared, to_whole;
    run_recorded(sharded, restored_at(whole, cut), to_shared);
    expect_same_tail(whole, to_shared, cut);
    expect_same_snapshots(whole, to_shared, cut);
    run_recorded(config, restored_at(shared, cut), to_whole);
    expect_same_tail(whole, to_whole, cut);
    expect_same_snapshots(whole, to_whole, cut);
  }
}

TEST(ShardedMemoryOnGpu, IsTheForecastOfAReplicasPart) {
  if (device::gpu_count() == 0) GTEST_SKIP() << "no GPU here";
  for (const char* precision : {"fp32", "bf16"}) {
    Config config = small_config({"pipeline.schedule=2bw", "model.tied=false", "pipeline.shard_state=true",
                                  fmt::format("train.precision={}", precision)});
    Recorder recorder;
    run_recorded(config, nullptr, recorder);
    const models::Model model = models::build(config.model);
    const planner::StateBytes bytes = planner::state_bytes(config);
    for (int stage = 0; stage < 2; ++stage) {
      const weights::Layout layout(model.layers, 11 * stage, 11 * stage + 11);
      const std::vector<weights::Range> shards = optim::shards_of(config.optimizer, layout, 2);
      const double size = static_cast<double>(layout.size());
      const Footprint forecast =
          planner::footprint({.shape = config.pipeline}, stage,
                             {.parameters = size, .gradient_parameters = size}, bytes, /*recompute=*/false);
      for (int replica = 0; replica < 2; ++replica) {
        const Footprint& seen = recorder.updates.at({config.train.updates - 1, replica, stage}).peak;
        const double part = static_cast<double>(shards[replica].count);
        EXPECT_EQ(seen[Term::Master], 4 * part);
        EXPECT_EQ(seen[Term::Optimizer], 8 * part);
        EXPECT_NEAR(seen[Term::Master] / forecast[Term::Master], 1, 0.02);
        EXPECT_NEAR(seen[Term::Optimizer] / forecast[Term::Optimizer], 1, 0.02);
        EXPECT_EQ(seen[Term::Weights], forecast[Term::Weights]);
        EXPECT_EQ(seen[Term::Gradients], forecast[Term::Gradients]);
      }
    }
  }
}

}  // namespace
}  // namespace twobw::runtime
