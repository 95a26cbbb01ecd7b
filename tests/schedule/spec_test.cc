#include "schedule/spec.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "specs.h"

namespace twobw::schedule {
namespace {

// What the user is told, empty if the spec is accepted.
std::string refusal(const Spec& spec) {
  try {
    validate(spec);
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

std::vector<std::int64_t> versions_by_batch(Spec spec, std::int64_t batches) {
  std::vector<std::int64_t> versions;
  for (std::int64_t j = 0; j < batches; ++j)
    versions.push_back(version_of(spec, 0, j * spec.shape.microbatches));
  return versions;
}

TEST(Spec, KindsAreReadByTheirNames) {
  for (Kind kind : all_kinds()) EXPECT_EQ(parse_kind(name(kind)), kind);
}

TEST(Spec, AnUnknownKindIsRefusedWithThoseKnown) {
  try {
    parse_kind("3bw");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "pipeline.schedule is '3bw'; allowed: sequential, gpipe, flush, 2bw, stash");
  }
}

TEST(Spec, SizesOutOfRangeAreRefusedByName) {
  EXPECT_EQ(refusal({.shape = {.stages = 0}}), "pipeline.stages is 0; it must be at least 1");
  EXPECT_EQ(refusal({.shape = {.microbatches = 0}}), "pipeline.microbatches is 0; it must be at least 1");
  EXPECT_EQ(refusal({.shape = {.extra = -1}}), "pipeline.extra is -1; it must be at least 0");
  EXPECT_EQ(refusal({.updates = 0}), "train.updates is 0; it must be at least 1");
  EXPECT_EQ(refusal({.sync_updates = -2}), "pipeline.sync_updates is -2; it must be at least 0");
  EXPECT_EQ(refusal({.evaluate_every = -1}), "train.eval_every is -1; it must be at least 0");
}

TEST(Spec, TooFewMicrobatchesAreRefusedWithTheSmallestAllowed) {
  EXPECT_EQ(refusal({.shape = {.schedule = Kind::TwoBW, .stages = 6, .microbatches = 6, .extra = 2}}),
            "pipeline.microbatches m = 6 is too small for 2bw with d = 6 stages and e = 2 extra: weights "
            "would be read before they exist; the smallest allowed m is d-1+e = 7");
}

TEST(Spec, TheBoundOnMicrobatchesIsExact) {
  for (int d = 1; d <= 8; ++d) {
    for (int e = 0; e <= 3; ++e) {
      const int bound = std::max(1, d - 1 + e);
      EXPECT_EQ(refusal({.shape = {.schedule = Kind::TwoBW, .stages = d, .microbatches = bound, .extra = e}}),
                "");
      EXPECT_NE(
          refusal({.shape = {.schedule = Kind::TwoBW, .stages = d, .microbatches = bound - 1, .extra = e}}),
          "");
    }
  }
}

TEST(Spec, OtherKindsRunWithOneMicrobatch) {
  for (Kind kind : {Kind::Sequential, Kind::GPipe, Kind::Flush, Kind::Stash}) {
    EXPECT_EQ(refusal({.shape = {.schedule = kind, .stages = 8, .microbatches = 1, .extra = 3}}), "");
  }
}

TEST(Spec, InFlightFollowsTheTable) {
  using Counts = std::vector<int>;
  const auto in_flight = [](Kind kind, int m, int e) {
    return by_stage({.shape = {.schedule = kind, .stages = 4, .microbatches = m, .extra = e}},
                    in_flight_bound);
  };
  EXPECT_EQ(in_flight(Kind::Sequential, 6, 0), (Counts{1, 1, 1, 1}));
  EXPECT_EQ(in_flight(Kind::GPipe, 6, 0), (Counts{6, 6, 6, 6}));
  EXPECT_EQ(in_flight(Kind::Flush, 6, 0), (Counts{4, 3, 2, 1}));
  EXPECT_EQ(in_flight(Kind::Flush, 2, 0), (Counts{2, 2, 2, 1}));
  EXPECT_EQ(in_flight(Kind::TwoBW, 6, 0), (Counts{4, 3, 2, 1}));
  EXPECT_EQ(in_flight(Kind::TwoBW, 6, 2), (Counts{6, 5, 3, 1}));
  EXPECT_EQ(in_flight(Kind::TwoBW, 6, 3), (Counts{7, 5, 3, 1}));
  EXPECT_EQ(in_flight(Kind::Stash, 2, 0), (Counts{4, 3, 2, 1}));
}

TEST(Spec, VersionsKeptFollowTheTable) {
  using Counts = std::vector<int>;
  const auto kept = [](Kind kind, int m) {
    return by_stage({.shape = {.schedule = kind, .stages = 4, .microbatches = m}}, versions_kept);
  };
  EXPECT_EQ(kept(Kind::Flush, 4), (Counts{1, 1, 1, 1}));
  EXPECT_EQ(kept(Kind::TwoBW, 4), (Counts{2, 2, 2, 1}));  // the last updates in place
  EXPECT_EQ(kept(Kind::Stash, 1), (Counts{4, 3, 2, 1}));  // up to d-r, reached without coalescing
  EXPECT_EQ(kept(Kind::Stash, 4), (Counts{2, 2, 2, 1}));
}

TEST(Spec, OnlyStagesThatWaitHaveASecondGradientBuffer) {
  EXPECT_EQ(by_stage({.shape = {.schedule = Kind::TwoBW, .stages = 3}}, gradient_buffers),
            (std::vector<int>{1, 2, 2}));
  EXPECT_EQ(by_stage({.shape = {.schedule = Kind::Flush, .stages = 3}}, gradient_buffers),
            (std::vector<int>{1, 1, 1}));
}

// Flush and one version more: with bf16 2+2+4+4+8 bytes a parameter.
TEST(Spec, WithoutTheSecondGradientBufferEveryStageKeepsTwoVersionsAndOneGradient) {
  for (int replicas : {1, 2}) {
    for (int d = 1; d <= 5; ++d) {
      const Spec spec = {
          .shape = {.schedule = Kind::TwoBW, .stages = d, .replicas = replicas, .second_gradient = false}};
      EXPECT_EQ(by_stage(spec, gradient_buffers), std::vector<int>(d, 1));
      EXPECT_EQ(by_stage(spec, versions_kept), std::vector<int>(d, 2));
      EXPECT_FALSE(has_second_gradient(spec));
    }
  }
}

TEST(Spec, TwoBWIsOneUpdateBehind) {
  EXPECT_EQ(versions_by_batch({.shape = {.schedule = Kind::TwoBW}}, 5),
            (std::vector<std::int64_t>{0, 0, 1, 2, 3}));
}

TEST(Spec, TheDelayBeginsAfterTheSynchronousUpdates) {
  const Spec spec = {.shape = {.schedule = Kind::TwoBW}, .sync_updates = 2};
  EXPECT_EQ(versions_by_batch(spec, 6), (std::vector<std::int64_t>{0, 1, 2, 2, 3, 4}));
}

TEST(Spec, SynchronousKindsIgnoreSyncUpdates) {
  const Spec spec = {.shape = {.schedule = Kind::Flush}, .sync_updates = 2};
  EXPECT_EQ(versions_by_batch(spec, 4), (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(synchronous_batches(spec), 0);
}

}  // namespace
}  // namespace twobw::schedule
