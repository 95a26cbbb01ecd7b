// Sharded optimizer state on a GPU: the same snapshots as without, resume from either, and a part of the
// state in each replica.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/base/config.h"
#include "engine/device/gpu_thread.h"
#include "tests/engine/runtime/recorder.h"
#include "tests/engine/runtime/shard_memory.h"

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
  expect_kinds_continue_each_other(small_config(GetParam().settings), {1, 3});
}

TEST(ShardedMemoryOnGpu, IsTheForecastOfAReplicasPart) {
  if (device::gpu_count() == 0) GTEST_SKIP() << "no GPU here";
  for (const char* precision : {"fp32", "bf16"})
    expect_memory_of_shards(
        small_config({"pipeline.schedule=2bw", "model.tied=false", "pipeline.shard_state=true",
                      fmt::format("train.precision={}", precision)}));
}

}  // namespace
}  // namespace twobw::runtime
