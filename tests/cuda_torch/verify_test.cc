// Pipelines on slices of a GPU equal the oracle on one slice, bit for bit: in any combination of schedule,
// layout, optimizer, precision and model.
#include "app/train/verify.h"

#include <ATen/cuda/CUDAContext.h>
#include <gtest/gtest.h>

#include "engine/device/device.h"
#include "tests/engine/runtime/settings.h"

namespace twobw::runtime {
namespace {

constexpr const char* kModel =
    "model.layers=4 model.width=256 model.heads=4 model.vocab=512 model.context=128 optimizer.lr=1e-3 "
    "pipeline.microbatches=4 train.updates=6 ";

class VerifyOnGpu : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!at::hasCUDA() || at::cuda::device_count() == 0) GTEST_SKIP() << "no GPU here";
    device::initialize();
    at::globalContext().setDeterministicAlgorithms(false, false);
  }

  // fp16 begins at a loss scale that overflows, so that updates are skipped; the others skip none.
  static void expect_oracle(const train::VerifyOptions& options) {
    const Config config = short_config(kModel + GetParam());
    const train::Verification result = train::verify(config, options);
    EXPECT_TRUE(result.equal) << result.difference;
    if (config.train.precision != "fp16") {
      EXPECT_EQ(result.skipped, 0);
    }
  }
};

TEST_P(VerifyOnGpu, PipelineEqualsOracle) {
  expect_oracle({});
}

// With copies between stages as between GPUs, though there is one.
TEST_P(VerifyOnGpu, PipelineOfSeveralGpusEqualsOracle) {
  expect_oracle({.simulate_peers = true});
}

// Replicas with a sharded optimizer state last; with one stage both ends of the tie are on it.
const Factor kLayouts = {
    "pipeline.split=[11,11] devices=[cuda:0/2]",
    "pipeline.split=[22] devices=[cuda:0]",
    "pipeline.split=[6,5,5,6] devices=[cuda:0/4]",
    "pipeline.split=[22] pipeline.replicas=3 devices=[cuda:0/4.0,cuda:0/4.1,cuda:0/4.2]",
    "pipeline.split=[11,11] pipeline.replicas=2 devices=[cuda:0/4]",
    "pipeline.split=[6,5,5,6] pipeline.replicas=2 devices=[cuda:0/8]",
    "pipeline.split=[11,11] pipeline.replicas=2 devices=[cuda:0/4] pipeline.shard_state=true",
    "pipeline.split=[22] pipeline.replicas=3 devices=[cuda:0/4.0,cuda:0/4.1,cuda:0/4.2] "
    "pipeline.shard_state=true",
    "pipeline.split=[11,11] pipeline.replicas=3 "
    "devices=[cuda:0/8.0,cuda:0/8.1,cuda:0/8.2,cuda:0/8.3,cuda:0/8.4,cuda:0/8.5] pipeline.shard_state=true"};
const Factor kSchedules = {"", "pipeline.predict=false", "pipeline.schedule=flush",
                           "pipeline.schedule=gpipe"};
const Factor kMicrobatches = {"", "pipeline.microbatches=2", "pipeline.microbatches=6",
                              "pipeline.microbatches=12"};
const Factor kRecompute = {"", "pipeline.recompute=[1]", "pipeline.recompute=all"};
const Factor kModels = {"",
                        "model.tied=false",
                        "model.context=1",
                        "model.reset_documents=true",
                        "model.head=classification",
                        "model.family=llama model.kv_heads=2",
                        "model.family=llama model.kv_heads=2 model.context=1",
                        "model.family=llama model.kv_heads=2 model.reset_documents=true",
                        "model.family=bert",
                        "model.family=bert model.context=1",
                        "model.family=bert model.padding=false",
                        "model.family=bert model.head=classification model.num_labels=3",
                        "model.family=bert model.head=regression"};

INSTANTIATE_TEST_SUITE_P(Pairs, VerifyOnGpu,
                         testing::ValuesIn(covering({kLayouts,
                                                     kSchedules,
                                                     kMicrobatches,
                                                     {"", "pipeline.extra=1"},
                                                     {"", "pipeline.sync_updates=2"},
                                                     factors::kGradientBuffers,
                                                     {"", "pipeline.step_slack=3"},
                                                     factors::kTies,
                                                     kRecompute,
                                                     factors::kOptimizers,
                                                     factors::kClipping,
                                                     factors::kPrecisions,
                                                     kModels,
                                                     factors::kDropout},
                                                    kModel)));

// With the kernels of training, which sum in any order.
TEST(VerifyOnGpuTest, PipelineIsNearTheOracleAsInTraining) {
  if (!at::hasCUDA() || at::cuda::device_count() == 0) GTEST_SKIP() << "no GPU here";
  device::initialize();
  for (const std::string settings :
       {"pipeline.split=[11,11] devices=[cuda:0/2]",
        "pipeline.split=[6,5,5,6] devices=[cuda:0/4] model.family=llama model.kv_heads=2 "
        "train.precision=bf16",
        "pipeline.split=[11,11] devices=[cuda:0/2] model.family=bert model.dropout=0.1 train.precision=bf16",
        "pipeline.split=[11,11] pipeline.replicas=2 devices=[cuda:0/4] pipeline.schedule=flush "
        "train.precision=fp16 train.loss_scale=1024",
        "pipeline.split=[11,11] pipeline.replicas=2 devices=[cuda:0/4] pipeline.shard_state=true "
        "optimizer.name=muon train.precision=bf16"}) {
    SCOPED_TRACE(settings);
    at::globalContext().setDeterministicAlgorithms(false, false);
    const train::Verification result = train::verify(short_config(kModel + settings), {.within = 0.02});
    EXPECT_TRUE(result.equal) << result.difference;
  }
}

}  // namespace
}  // namespace twobw::runtime
