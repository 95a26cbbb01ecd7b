// Pipelines, over threads and over processes, equal the serial oracle bit for bit: in any combination of
// schedule, shape, optimizer, precision, model and layout.
#include <gtest/gtest.h>

#include <cmath>

#include "app/train/verify.h"
#include "tests/engine/runtime/exact.h"
#include "tests/engine/runtime/settings.h"

namespace twobw::runtime {
namespace {

using transport::wire_kinds;

class Exactness : public testing::TestWithParam<std::string> {};

// fp16 begins at a loss scale that overflows, so that updates are skipped; the others skip none.
TEST_P(Exactness, PipelineEqualsOracle) {
  const auto [config, processes] = setting_of(GetParam());
  const train::Verification result =
      processes == 1 ? verified(config) : verified_over(Ranks(processes, wire_kinds().front()), config);
  if (config.train.precision == "fp16") return;
  EXPECT_EQ(result.skipped, 0);
  EXPECT_TRUE(std::isfinite(result.final_loss));
}

// Every pair of levels of two factors.
INSTANTIATE_TEST_SUITE_P(
    Pairs, Exactness,
    testing::ValuesIn(covering({factors::kSchedules,       factors::kSplits,     factors::kMicrobatches,
                                factors::kReplicas,        factors::kExtra,      factors::kSyncUpdates,
                                factors::kGradientBuffers, factors::kSlack,      factors::kTies,
                                factors::kStates,          factors::kRecompute,  factors::kOptimizers,
                                factors::kClipping,        factors::kPrecisions, factors::kFamilies,
                                factors::kHeads,           factors::kTyings,     factors::kDocuments,
                                factors::kDropout,         factors::kPrefetch,   factors::kProcesses})));

// Pairs under 2bw alone, where the shape decides most.
INSTANTIATE_TEST_SUITE_P(ShapesOf2BW, Exactness,
                         testing::ValuesIn(covering({{"", "pipeline.predict=false"},
                                                     factors::kSplits,
                                                     factors::kMicrobatches,
                                                     factors::kReplicas,
                                                     factors::kExtra,
                                                     factors::kSyncUpdates,
                                                     factors::kGradientBuffers,
                                                     factors::kSlack,
                                                     factors::kTies,
                                                     factors::kStates,
                                                     factors::kProcesses})));

class OverGloo : public testing::TestWithParam<const char*> {};

TEST_P(OverGloo, PipelineEqualsOracle) {
  const transport::WireKind gloo = wire_kinds().back();
  if (gloo.is_missing) GTEST_SKIP() << "built without Gloo";
  const auto [config, processes] = setting_of(GetParam());
  EXPECT_EQ(verified_over(Ranks(processes, gloo), config).skipped, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Processes, OverGloo,
    testing::Values("processes=2 pipeline.split=[1,5,5,1] pipeline.schedule=flush",
                    "processes=all pipeline.split=[1,6,5] pipeline.predict=false",
                    "processes=2 pipeline.split=[5,7] pipeline.replicas=3 pipeline.schedule=gpipe",
                    "processes=all pipeline.split=[12] pipeline.replicas=4 pipeline.microbatches=2",
                    "processes=all pipeline.split=[5,7] pipeline.replicas=2 pipeline.shard_state=true"));

TEST(Groups, HoldOnEveryStageThatHasTheirParameters) {
  for (const char* name : {"muon", "lamb"}) {
    Config config = short_config("pipeline.split=[5,4,3] pipeline.microbatches=4");
    config.optimizer.name = name;
    config.optimizer.groups = {"embedding.tokens lr=1e-3 weight_decay=0", "*.weight weight_decay=0.3",
                               "*bias lr=0"};
    EXPECT_EQ(verified(config).skipped, 0);
  }
}

// After the first update, with this learning rate, no gradient is finite.
TEST(NotFinite, UpdatesAreSkippedByAllAlike) {
  const std::string plain = "optimizer.lr=1e30 optimizer.clip=0 pipeline.split=[5,7] ";
  for (const char* more :
       {"", "pipeline.predict=false", "pipeline.replicas=3 pipeline.double_buffer_gradients=false",
        "processes=all", "pipeline.defer_tied_update=true", "pipeline.replicas=2 pipeline.shard_state=true",
        "pipeline.replicas=2 pipeline.shard_state=true pipeline.predict=false processes=2"}) {
    SCOPED_TRACE(more);
    const auto [config, processes] = setting_of(plain + more);
    const train::Verification result =
        processes == 1 ? verified(config) : verified_over(Ranks(processes, wire_kinds().front()), config);
    EXPECT_GT(result.skipped, 0);
  }
}

// Without a loss scale small gradients of fp16 would vanish.
TEST(NarrowPrecisions, RoundAndStayNearSinglePrecision) {
  const auto loss_of = [](const std::string& precision) {
    const train::Verification result = verified(short_config("pipeline.split=[4,8] " + precision));
    EXPECT_EQ(result.skipped, 0);
    return result.final_loss;
  };
  const double exact = loss_of("");
  for (const auto& [precision, error] : {std::pair("train.precision=bf16", 0.03),
                                         std::pair("train.precision=fp16 train.loss_scale=1024", 0.01)}) {
    const double near = loss_of(precision);
    EXPECT_NE(near, exact) << precision;
    EXPECT_NEAR(near, exact, error * exact) << precision;
  }
}

TEST(SynchronousSchedules, AreOneAnother) {
  const std::pair<const char*, const char*> pairs[] = {
      {"sequential", "gpipe"}, {"gpipe", "flush"}, {"flush", "sequential"}};
  for (const auto& [schedule, against] : pairs) {
    const Config config =
        short_config("pipeline.split=[4,4,4] pipeline.replicas=2 pipeline.schedule=" + std::string(schedule));
    const train::Verification result = train::verify(config, {.against = against});
    EXPECT_TRUE(result.equal) << schedule << " against " << against << ": " << result.difference;
  }
}

// Batch 0 runs on W(0) under both rules, batch 1 on W(1) under flush alone.
TEST(ADifferentRule, IsFoundOutAtTheFirstUpdateItChanges) {
  for (const char* more : {"", "pipeline.replicas=2", "pipeline.predict=false"}) {
    const Config config = short_config(std::string("pipeline.split=[5,7] ") + more);
    const train::Verification result = train::verify(config, {.against = "flush"});
    EXPECT_FALSE(result.equal);
    EXPECT_TRUE(result.difference.starts_with("update 1: loss")) << result.difference;
  }
}

TEST(Versions, AreAtMostTwoUnder2BW) {
  const auto peak_versions = [](const std::string& more) {
    return verified(short_config("pipeline.split=[3,3,3,3] pipeline.extra=2 " + more)).peak_versions;
  };
  for (const std::string replicas : {"pipeline.replicas=1 ", "pipeline.replicas=2 "}) {
    EXPECT_EQ(peak_versions(replicas).front(), 2);
    for (const int versions : peak_versions(replicas)) EXPECT_LE(versions, 2);
    EXPECT_EQ(peak_versions(replicas + "pipeline.double_buffer_gradients=false"),
              (std::vector<int>{2, 2, 2, 1}));
    EXPECT_EQ(peak_versions(replicas + "pipeline.double_buffer_gradients=false pipeline.predict=false"),
              std::vector<int>(4, 2));
  }
  EXPECT_EQ(verified(short_config("pipeline.split=[12] pipeline.replicas=2")).peak_versions, std::vector{1});
}

}  // namespace
}  // namespace twobw::runtime
