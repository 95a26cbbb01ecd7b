#include "core/schedule/checker.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "broken.h"
#include "specs.h"

namespace twobw::schedule {
namespace {

class EveryKind : public testing::TestWithParam<Kind> {};

INSTANTIATE_TEST_SUITE_P(Checker, EveryKind, testing::ValuesIn(all_kinds()),
                         [](const auto& info) { return kind_name(info.param); });

TEST_P(EveryKind, AllItsListsAreProved) {
  for_each_spec(GetParam(), {}, [](const Spec& spec) { ASSERT_EQ(check(spec).problem(), "") << text(spec); });
}

TEST_P(EveryKind, AllListsOfReplicasAreProved) {
  const Ranges ranges = {.stages = full_sweeps() ? 5 : 3,
                         .microbatches = full_sweeps() ? 7 : 5,
                         .extra = 2,
                         .updates = full_sweeps() ? 5 : 4,
                         .sync_updates = 2,
                         .evaluate_every = 2,
                         .replicas = 3};
  for_each_spec(GetParam(), ranges,
                [](const Spec& spec) { ASSERT_EQ(check(spec).problem(), "") << text(spec); });
}

TEST_P(EveryKind, ReachesItsBoundsInALongRun) {
  const Ranges ranges = {.updates = 1, .sync_updates = 2, .evaluate_every = 0, .replicas = 2};
  for_each_spec(GetParam(), ranges, [](Spec spec) {
    spec.updates = 12 + 2 * (spec.shape.stages + spec.shape.extra);
    const Report report = check(spec);
    for (int stage = 0; stage < spec.shape.stages; ++stage) {
      const Peaks& peaks = report.peaks[static_cast<std::size_t>(stage)];
      ASSERT_EQ(peaks.in_flight, in_flight_bound(spec, stage)) << text(spec) << " stage " << stage;
      ASSERT_EQ(peaks.gradient_buffers, gradient_buffers(spec, stage)) << text(spec) << " stage " << stage;
      ASSERT_EQ(peaks.versions, versions_kept(spec, stage)) << text(spec) << " stage " << stage;
    }
    const auto two = [](const Peaks& peaks) { return peaks.gradient_buffers == 2; };
    ASSERT_EQ(std::ranges::any_of(report.peaks, two), has_second_gradient(spec)) << text(spec);
  });
}

TEST_P(EveryKind, NoInstructionIsIdle) {
  for (bool predict : {true, false}) {
    for (int replicas : {1, 2}) {
      Spec spec = {.shape = {.schedule = GetParam(),
                             .stages = 3 - (replicas - 1),
                             .replicas = replicas,
                             .extra = 1,
                             .predict = predict},
                   .updates = 4,
                   .sync_updates = 1,
                   .evaluate_every = 2};
      spec.shape.microbatches = std::max(3, smallest_microbatches(spec));
      expect_no_idle_instruction(spec);
    }
  }
}

TEST(Checker, AsksNoAgreementOfStash) {
  const Report report = check({.shape = {.schedule = Kind::Stash, .stages = 3}, .updates = 3});
  EXPECT_TRUE(report.ok());
  EXPECT_TRUE(std::ranges::none_of(report.findings,
                                   [](const Finding& f) { return f.property == Property::Agreement; }));
}

TEST(Checker, ReportsAProblemInOneSentence) {
  const Spec spec = {.shape = {.schedule = Kind::Flush, .stages = 2, .microbatches = 2}, .updates = 1};
  Lists lists = all_instructions(spec);
  lists[1] = without(lists[1], Op::Step);
  EXPECT_EQ(check(spec, lists).problem(), "updates: stage 1: Step ends at 0 of 1");
}

}  // namespace
}  // namespace twobw::schedule
