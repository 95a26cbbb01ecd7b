// Pipelines on sequences of several documents, each computed by itself, equal the serial oracle bit for bit;
// middle stages need the positions.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "engine/runtime/setup.h"
#include "tests/engine/runtime/exact.h"
#include "tests/engine/runtime/short_config.h"

namespace twobw::runtime {
namespace {
namespace packed {

struct Case {
  const char* family;
  ScheduleKind schedule;
  std::vector<int> split;  // of embedding, 2 x 5 layers of a block, and a head
  int replicas = 1;
  std::vector<int> recompute = {};
  double dropout = 0;
};

// Made-up documents have 21 tokens: two in most sequences.
Config config_of(const Case& c) {
  Config config;
  config.model = {.family = c.family, .layers = 2, .width = 24, .heads = 3, .vocab = 37, .context = 16};
  config.model.dropout = c.dropout;
  config.model.reset_documents = true;
  if (config.model.family == "llama") config.model.kv_heads = 1;
  config.pipeline.schedule = c.schedule;
  config.pipeline.stages = static_cast<int>(c.split.size());
  config.pipeline.split = c.split;
  config.pipeline.replicas = c.replicas;
  config.pipeline.recompute = c.recompute;
  make_short(config);
  return config;
}

class PackedSequences : public testing::TestWithParam<Case> {};

TEST_P(PackedSequences, PipelineEqualsOracle) {
  expect_exact(config_of(GetParam()));
}

constexpr auto kFlush = ScheduleKind::Flush, kTwoBW = ScheduleKind::TwoBW;

INSTANTIATE_TEST_SUITE_P(
    Families, PackedSequences,
    testing::Values(Case{"gpt", kFlush, {12}}, Case{"gpt", kFlush, {5, 7}, 1, {0, 1}},
                    Case{"gpt", kTwoBW, {4, 4, 4}, 1, {1}}, Case{"gpt", kTwoBW, {2, 10}, 2},
                    Case{"gpt", kTwoBW, {3, 5, 4}, 1, {0, 1, 2}, 0.1}, Case{"llama", kFlush, {12}, 1, {0}},
                    Case{"llama", kTwoBW, {5, 7}}, Case{"llama", kTwoBW, {2, 5, 5}, 1, {1, 2}},
                    Case{"llama", kFlush, {6, 6}, 2}),
    [](const auto& info) {
      return fmt::format("{}_d{}_{}", info.param.family, info.param.split.size(), info.index);
    });

TEST(PackedSequencesOfAStage, AreTakenByMiddleStagesToo) {
  const runtime::Setup setup = prepare(config_of({"llama", kTwoBW, {2, 5, 5}}));
  const auto fields = architecture::taken_by(setup.model.layers, 2, 7);
  EXPECT_EQ(fields, architecture::BatchFields{architecture::Field::Positions});
  MicrobatchSource microbatches(setup.config, *setup.training, *setup.validation, fields);
  for (const models::MicrobatchContext& pass : {microbatches.training(0, 1), microbatches.validation(0)}) {
    const at::Tensor positions = pass.batch[architecture::Field::Positions];
    EXPECT_EQ(positions.sizes(), (std::vector<std::int64_t>{2, 16}));
    EXPECT_TRUE(positions.select(1, 0).eq(0).all().item<bool>());
  }
}

}  // namespace packed
}  // namespace
}  // namespace twobw::runtime
