// Pipelines on slices of a GPU against the oracle on one slice, bit for bit.
#include "app/train/verify.h"

#include <gtest/gtest.h>

#include <ATen/cuda/CUDAContext.h>

#include "core/base/config.h"
#include "engine/device/cpu.h"

namespace twobw::train {
namespace {

struct Case {
  const char* name;
  std::vector<std::string> settings;
};

std::ostream& operator<<(std::ostream& out, const Case& test) {
  return out << test.name;
}

class VerifyOnGpu : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!at::hasCUDA() || at::cuda::device_count() == 0) GTEST_SKIP() << "no GPU here";
    device::initialize();
    at::globalContext().setDeterministicAlgorithms(false, false);
  }
};

Verification verify_small(const std::vector<std::string>& more, const VerifyOptions& options) {
  std::vector<std::string> settings = {
      "model.layers=4",          "model.width=256",          "model.heads=4",
      "model.vocab=512",         "model.context=128",        "pipeline.microbatch=2",
      "pipeline.microbatches=4", "train.updates=6",          "optimizer.warmup=2",
      "train.eval_every=3",      "train.eval_microbatches=2"};
  settings.insert(settings.end(), more.begin(), more.end());
  return verify(load_config("", settings), options);
}

TEST_P(VerifyOnGpu, ThePipelineIsTheOracle) {
  const Verification result = verify_small(GetParam().settings, {});
  EXPECT_TRUE(result.equal) << result.difference;
  EXPECT_EQ(result.skipped, 0);
}

// Links as between GPUs, where there is but one.
TEST_P(VerifyOnGpu, ThePipelineIsTheOracleWithStagesApart) {
  const Verification result = verify_small(GetParam().settings, {.simulate_peers = true});
  EXPECT_TRUE(result.equal) << result.difference;
}

TEST_P(VerifyOnGpu, ThePipelineIsNearTheOracleAsInTraining) {
  const Verification result = verify_small(GetParam().settings, {.within = 0.02});
  EXPECT_TRUE(result.equal) << result.difference;
}

const std::vector<std::string> kTwo = {"pipeline.stages=2", "devices=[cuda:0/2]", "pipeline.split=[11,11]"};
const std::vector<std::string> kFour = {"pipeline.stages=4", "devices=[cuda:0/4]",
                                        "pipeline.split=[6,5,5,6]"};

std::vector<std::string> with(std::vector<std::string> base, const std::vector<std::string>& more) {
  base.insert(base.end(), more.begin(), more.end());
  return base;
}

// Replicas that share the optimizer's state.
const std::vector<std::string> kShared =
    with(kTwo, {"pipeline.replicas=2", "devices=[cuda:0/4]", "pipeline.shard_state=true"});
const std::vector<std::string> kSharedByThree = {"pipeline.stages=1", "pipeline.replicas=3",
                                                 "pipeline.shard_state=true",
                                                 "devices=[cuda:0/4.0,cuda:0/4.1,cuda:0/4.2]"};

INSTANTIATE_TEST_SUITE_P(
    Sharded, VerifyOnGpu,
    testing::Values(
        Case{"flush", with(kShared, {"pipeline.schedule=flush"})},
        Case{"flush_bf16", with(kShared, {"pipeline.schedule=flush", "train.precision=bf16"})},
        Case{"twobw", with(kShared, {"pipeline.schedule=2bw"})},
        Case{"twobw_bf16", with(kShared, {"pipeline.schedule=2bw", "train.precision=bf16"})},
        Case{"twobw_fp16",
             with(kShared, {"pipeline.schedule=2bw", "train.precision=fp16", "train.loss_scale=1024"})},
        Case{"all_predicted", with(kShared, {"pipeline.schedule=2bw", "pipeline.microbatches=2"})},
        Case{"all_predicted_bf16",
             with(kShared, {"pipeline.schedule=2bw", "pipeline.microbatches=2", "train.precision=bf16"})},
        Case{"paper", with(kShared, {"pipeline.schedule=2bw", "pipeline.predict=false"})},
        Case{"paper_bf16",
             with(kShared, {"pipeline.schedule=2bw", "pipeline.predict=false", "train.precision=bf16"})},
        Case{"one_gradient_untied",
             with(kShared,
                  {"pipeline.schedule=2bw", "pipeline.double_buffer_gradients=false", "model.tied=false"})},
        Case{"synchronous_start_unclipped",
             with(kShared, {"pipeline.schedule=2bw", "pipeline.sync_updates=2", "optimizer.clip=0"})},
        Case{"clipped", with(kShared, {"pipeline.schedule=2bw", "optimizer.clip=0.1"})},
        Case{"muon", with(kShared, {"pipeline.schedule=2bw", "optimizer.name=muon"})},
        Case{"muon_bf16",
             with(kShared, {"pipeline.schedule=2bw", "optimizer.name=muon", "train.precision=bf16"})},
        Case{"lamb", with(kShared, {"pipeline.schedule=2bw", "optimizer.name=lamb"})},
        Case{"lamb_flush", with(kShared, {"pipeline.schedule=flush", "optimizer.name=lamb"})},
        // Both ends of the tie on one stage.
        Case{"one_stage", with(kSharedByThree, {"pipeline.schedule=2bw", "pipeline.microbatches=2"})},
        Case{"one_stage_bf16", with(kSharedByThree, {"pipeline.schedule=2bw", "train.precision=bf16"})},
        Case{"one_stage_muon_flush", with(kSharedByThree, {"pipeline.schedule=flush", "optimizer.name=muon",
                                                           "pipeline.microbatches=2"})},
        Case{"three_bf16",
             with(kTwo, {"pipeline.schedule=2bw", "pipeline.replicas=3", "pipeline.shard_state=true",
                         "train.precision=bf16",
                         "devices=[cuda:0/8.0,cuda:0/8.1,cuda:0/8.2,cuda:0/8.3,cuda:0/8.4,cuda:0/8.5]"})},
        Case{"bert_dropout_bf16",
             with(kShared, {"pipeline.schedule=2bw", "pipeline.split=[11,12]", "model.family=bert",
                            "model.dropout=0.1", "train.precision=bf16"})}),
    [](const auto& info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(
    All, VerifyOnGpu,
    testing::Values(
        Case{"one_stage", {"pipeline.stages=1", "devices=[cuda:0]", "pipeline.schedule=flush"}},
        Case{"twobw", with(kTwo, {"pipeline.schedule=2bw"})},
        Case{"llama", with(kTwo, {"pipeline.schedule=2bw", "model.family=llama", "model.kv_heads=2"})},
        Case{"llama_bf16", with(kFour, {"pipeline.schedule=2bw", "model.family=llama", "model.kv_heads=2",
                                        "pipeline.recompute=[1]", "train.precision=bf16"})},
        Case{"documents", with(kTwo, {"pipeline.schedule=2bw", "model.reset_documents=true"})},
        Case{"documents_bf16", with(kFour, {"pipeline.schedule=2bw", "model.reset_documents=true",
                                            "pipeline.recompute=[1]", "train.precision=bf16"})},
        Case{"llama_documents_bf16",
             with(kFour, {"pipeline.schedule=2bw", "model.family=llama", "model.kv_heads=2",
                          "model.reset_documents=true", "train.precision=bf16"})},
        Case{"bert",
             {"pipeline.stages=2", "devices=[cuda:0/2]", "pipeline.split=[11,12]", "pipeline.schedule=2bw",
              "model.family=bert"}},
        Case{"bert_bf16",
             {"pipeline.stages=4", "devices=[cuda:0/4]", "pipeline.split=[6,6,5,6]", "pipeline.schedule=2bw",
              "model.family=bert", "pipeline.recompute=[1]", "train.precision=bf16"}},
        Case{"bert_bf16_without_padding",
             {"pipeline.stages=2", "devices=[cuda:0/2]", "pipeline.split=[11,12]", "pipeline.schedule=2bw",
              "model.family=bert", "model.padding=false", "train.precision=bf16"}},
        Case{"bert_classification",
             with(kTwo, {"pipeline.schedule=2bw", "model.family=bert", "model.head=classification",
                         "model.num_labels=3", "train.precision=bf16"})},
        Case{"bert_regression", with(kTwo, {"pipeline.schedule=flush", "model.family=bert",
                                            "model.head=regression", "train.precision=bf16"})},
        Case{"gpt_classification",
             with(kFour, {"pipeline.schedule=2bw", "model.head=classification", "train.precision=bf16"})},
        Case{"dropout", with(kTwo, {"pipeline.schedule=2bw", "model.dropout=0.1"})},
        Case{"dropout_bf16", with(kFour, {"pipeline.schedule=2bw", "model.dropout=0.1",
                                          "pipeline.recompute=[1]", "train.precision=bf16"})},
        Case{"dropout_recomputed",
             with(kTwo, {"pipeline.schedule=2bw", "pipeline.double_buffer_gradients=false",
                         "pipeline.recompute=all", "model.dropout=0.1", "train.precision=bf16"})},
        Case{"dropout_replicas", with(kTwo, {"pipeline.schedule=2bw", "pipeline.replicas=2",
                                             "devices=[cuda:0/4]", "model.dropout=0.1"})},
        Case{"bert_dropout_bf16",
             {"pipeline.stages=4", "devices=[cuda:0/4]", "pipeline.split=[6,6,5,6]", "pipeline.schedule=2bw",
              "model.family=bert", "model.dropout=0.1", "pipeline.recompute=[1]", "train.precision=bf16"}},
        Case{"bert_dropout_classification",
             with(kTwo, {"pipeline.schedule=2bw", "model.family=bert", "model.head=classification",
                         "model.num_labels=3", "model.dropout=0.1"})},
        Case{"twobw_bf16", with(kTwo, {"pipeline.schedule=2bw", "train.precision=bf16"})},
        Case{"twobw_fp16",
             with(kTwo, {"pipeline.schedule=2bw", "train.precision=fp16", "train.loss_scale=1024"})},
        Case{"llama_fp16", with(kFour, {"pipeline.schedule=2bw", "model.family=llama", "model.kv_heads=2",
                                        "train.precision=fp16", "train.loss_scale=1024"})},
        Case{"bert_fp16_flush",
             {"pipeline.stages=2", "devices=[cuda:0/2]", "pipeline.split=[11,12]", "pipeline.schedule=flush",
              "model.family=bert", "train.precision=fp16", "train.loss_scale=1024"}},
        Case{"one_stage_predicted",
             {"pipeline.stages=1", "devices=[cuda:0]", "pipeline.schedule=2bw", "train.precision=bf16"}},
        Case{"paper", with(kTwo, {"pipeline.schedule=2bw", "pipeline.predict=false"})},
        Case{"paper_bf16", with(kFour, {"pipeline.schedule=2bw", "pipeline.predict=false",
                                        "pipeline.microbatches=3", "train.precision=bf16"})},
        Case{"paper_one_gradient", with(kFour, {"pipeline.schedule=2bw", "pipeline.predict=false",
                                                "pipeline.double_buffer_gradients=false"})},
        Case{"flush", with(kTwo, {"pipeline.schedule=flush"})},
        Case{"gpipe_bf16", with(kTwo, {"pipeline.schedule=gpipe", "train.precision=bf16"})},
        Case{"four_stages_extra", with(kFour, {"pipeline.schedule=2bw", "pipeline.microbatches=6",
                                               "pipeline.extra=1", "train.precision=bf16"})},
        Case{"defer_tied_update", with(kFour, {"pipeline.schedule=2bw", "pipeline.defer_tied_update=true"})},
        Case{"late_tie_extra", with(kFour, {"pipeline.schedule=2bw", "pipeline.microbatches=12",
                                            "pipeline.extra=1", "pipeline.defer_tied_update=true",
                                            "pipeline.step_slack=3", "train.precision=bf16"})},
        Case{"late_tie_paper", with(kTwo, {"pipeline.schedule=2bw", "pipeline.defer_tied_update=true",
                                           "pipeline.predict=false", "train.precision=bf16"})},
        Case{"one_gradient",
             with(kFour, {"pipeline.schedule=2bw", "pipeline.double_buffer_gradients=false"})},
        Case{"one_gradient_recomputed",
             with(kTwo, {"pipeline.schedule=2bw", "pipeline.double_buffer_gradients=false",
                         "pipeline.recompute=all", "train.precision=bf16"})},
        Case{"synchronous_start", with(kFour, {"pipeline.schedule=2bw", "pipeline.sync_updates=2"})},
        Case{"recomputed",
             with(kTwo, {"pipeline.schedule=2bw", "pipeline.recompute=all", "train.precision=bf16"})},
        Case{"one_token_recomputed",
             with(kTwo, {"pipeline.schedule=2bw", "pipeline.recompute=all", "model.context=1"})},
        Case{"one_token_recomputed_llama_bf16",
             with(kTwo, {"pipeline.schedule=2bw", "pipeline.recompute=[1]", "model.context=1",
                         "model.family=llama", "model.kv_heads=2", "train.precision=bf16"})},
        Case{"one_token_recomputed_bert_bf16",
             with(kTwo, {"pipeline.schedule=2bw", "pipeline.recompute=all", "model.context=1",
                         "pipeline.split=[11,12]", "model.family=bert", "train.precision=bf16"})},
        Case{"replicas_alone",
             {"pipeline.stages=1", "pipeline.replicas=3", "devices=[cuda:0/4.0,cuda:0/4.1,cuda:0/4.2]",
              "pipeline.microbatches=2", "pipeline.schedule=flush"}},
        Case{"replicas", with(kTwo, {"pipeline.schedule=2bw", "pipeline.replicas=2", "devices=[cuda:0/4]"})},
        Case{"replicas_bf16",
             with(kTwo, {"pipeline.schedule=2bw", "pipeline.replicas=3", "train.precision=bf16",
                         "devices=[cuda:0/8.0,cuda:0/8.1,cuda:0/8.2,cuda:0/8.3,cuda:0/8.4,cuda:0/8.5]"})},
        Case{"replicas_one_gradient_untied",
             with(kTwo, {"pipeline.schedule=2bw", "pipeline.replicas=2", "devices=[cuda:0/4]",
                         "pipeline.double_buffer_gradients=false", "model.tied=false"})},
        Case{"replicas_of_four_flush_bf16", with(kFour, {"pipeline.schedule=flush", "pipeline.replicas=2",
                                                         "devices=[cuda:0/8]", "train.precision=bf16"})},
        Case{"untied", with(kTwo, {"pipeline.schedule=2bw", "model.tied=false"})},
        Case{"sgd", with(kTwo, {"pipeline.schedule=2bw", "optimizer.name=sgd"})},
        Case{"lion", with(kTwo, {"pipeline.schedule=2bw", "optimizer.name=lion", "optimizer.lr=1e-4",
                                 "train.precision=bf16"})},
        Case{"muon", with(kTwo, {"pipeline.schedule=2bw", "optimizer.name=muon", "train.precision=bf16"})},
        Case{"muon_flush", with(kTwo, {"pipeline.schedule=flush", "optimizer.name=muon"})},
        Case{"lamb",
             with(kFour, {"pipeline.schedule=2bw", "optimizer.name=lamb", "pipeline.sync_updates=1"})},
        Case{"unclipped", with(kFour, {"pipeline.schedule=2bw", "optimizer.clip=0"})}),
    [](const auto& info) { return std::string(info.param.name); });

class LossScaleOnGpu : public VerifyOnGpu {};

// From a scale at which gradients overflow, down to one where they do not, and up again.
TEST_P(LossScaleOnGpu, IsTheSameOnAllStages) {
  const Verification result =
      verify_small(with(GetParam().settings, {"train.precision=fp16", "train.updates=16",
                                              "train.loss_scale=16777216", "train.loss_scale_window=2"}),
                   {});
  EXPECT_TRUE(result.equal) << result.difference;
  EXPECT_GT(result.skipped, 0);
  EXPECT_LT(result.skipped, 16);
}

INSTANTIATE_TEST_SUITE_P(
    All, LossScaleOnGpu,
    testing::Values(
        Case{"flush", with(kTwo, {"pipeline.schedule=flush"})},
        Case{"twobw", with(kFour, {"pipeline.schedule=2bw"})},
        Case{"paper", with(kTwo, {"pipeline.schedule=2bw", "pipeline.predict=false"})},
        Case{"one_gradient", with(kTwo, {"pipeline.schedule=2bw", "pipeline.double_buffer_gradients=false"})},
        Case{"muon", with(kTwo, {"pipeline.schedule=2bw", "optimizer.name=muon"})},
        Case{"replicas", with(kTwo, {"pipeline.schedule=2bw", "pipeline.replicas=2", "devices=[cuda:0/4]"})},
        Case{"sharded", with(kShared, {"pipeline.schedule=2bw"})},
        Case{"sharded_muon_flush", with(kShared, {"pipeline.schedule=flush", "optimizer.name=muon"})},
        Case{"regression",
             with(kTwo, {"pipeline.schedule=2bw", "model.family=bert", "model.head=regression"})}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace twobw::train
