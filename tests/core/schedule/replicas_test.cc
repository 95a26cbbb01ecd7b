// Replicas of the pipeline: changes in the lists, and the waits between replicas.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/schedule/execution.h"
#include "specs.h"

namespace twobw::schedule {
namespace {

const Ranges kSmall = {.stages = full_sweeps() ? 5 : 3,
                       .microbatches = full_sweeps() ? 7 : 5,
                       .extra = 2,
                       .updates = full_sweeps() ? 5 : 4,
                       .sync_updates = 2,
                       .evaluate_every = 2,
                       .replicas = 3};

std::int64_t position(const std::vector<Instruction>& list, Op op, std::int64_t batch) {
  const auto found = std::ranges::find_if(
      list, [&](const Instruction& i) { return i.op == op && i.microbatch < 0 && i.batch == batch; });
  return found - list.begin();
}

class EveryKindReplicated : public testing::TestWithParam<Kind> {};

INSTANTIATE_TEST_SUITE_P(Replicas, EveryKindReplicated, testing::ValuesIn(all_kinds()),
                         [](const auto& info) { return kind_name(info.param); });

// With sharded state all replicas take part in evaluations and saves.
TEST_P(EveryKindReplicated, OnlyTheFirstEvaluatesUnlessTheStateIsSharded) {
  for_each_spec(GetParam(), kSmall, [](Spec spec) {
    for (int stage = 0; stage < spec.shape.stages; ++stage) {
      const auto first = instructions(spec, stage);
      ASSERT_EQ(instructions(of_replica(spec, 0), stage), first);
      ASSERT_EQ(instructions(of_replica(spec, 1), stage), without(first, Op::Evaluate))
          << text(spec) << " stage " << stage;
      if (spec.shape.replicas == 1) continue;
      Spec sharded = spec;
      sharded.shape.shard_state = true;
      sharded.save_every = 2;
      ASSERT_EQ(instructions(of_replica(sharded, 1), stage), instructions(sharded, stage)) << text(spec);
    }
  });
}

// Only 2bw hides the sum over replicas; the lists of other kinds do not change. Every stage exchanges partial
// sums.
TEST_P(EveryKindReplicated, OnlyStageZeroOf2bwRunsAnotherListThanAlone) {
  for_each_spec(GetParam(), kSmall, [](const Spec& spec) {
    Spec alone = spec;
    alone.shape.replicas = 1;
    for (int stage = spec.shape.schedule == Kind::TwoBW ? 1 : 0; stage < spec.shape.stages; ++stage)
      ASSERT_EQ(without(instructions(spec, stage), Op::ReducePartial), instructions(alone, stage))
          << text(spec) << " stage " << stage;
  });
}

// Time for the exchange over replicas before a forward needs its result.
TEST(Replicas, TheSlackIsTheDesigns) {
  const Ranges ranges = {.updates = 1, .sync_updates = 0, .evaluate_every = 0, .replicas = 2};
  for_each_spec(Kind::TwoBW, ranges, [](Spec spec) {
    const PipelineShape& shape = spec.shape;
    if (shape.replicas == 1 || !shape.double_buffer_gradients) return;
    spec.updates = 8;
    const int fill = shape.stages > 1 ? shape.stages - 1 + shape.extra : 0;
    const int switches_at = fill + shape.step_slack;
    const bool switches =
        shape.predict && fill + switches_at <= shape.microbatches && switches_at < shape.microbatches;
    for (int stage = 0; stage < shape.stages; ++stage) {
      const auto list = instructions(spec, stage);
      const auto begin = list.begin() + position(list, Op::ReduceGradients, 3);
      const auto end = list.begin() + position(list, Op::Step, 3);
      const auto between =
          std::count_if(begin, end, [](const Instruction& i) { return i.op == Op::Backward; });
      const int behind = shape.stages - 1 - stage + extra_at(spec, stage);
      ASSERT_EQ(between, (switches ? std::max(1, switches_at) : shape.microbatches) - behind)
          << text(spec) << " stage " << stage;
      ASSERT_EQ(between, update_slack(spec, stage));
    }
  });
}

// A forward at most hides the sum over replicas then.
TEST(Replicas, WithOneGradientBufferTheStepComesRightBeforeTheNextBackward) {
  for_each_spec(Kind::TwoBW, kSmall, [](const Spec& spec) {
    if (spec.shape.double_buffer_gradients) return;
    for (int stage = 0; stage < spec.shape.stages; ++stage) {
      if (!steps_late(spec, stage)) continue;
      const auto list = without(instructions(spec, stage), Op::RecvGradient);
      for (std::int64_t batch = spec.sync_updates; batch + 1 < spec.updates; ++batch) {
        const Instruction& next = list.at(static_cast<std::size_t>(position(list, Op::Step, batch)) + 1);
        ASSERT_EQ(next.op, Op::Backward) << text(spec) << " stage " << stage;
        ASSERT_EQ(next.microbatch, (batch + 1) * spec.shape.microbatches) << text(spec) << " stage " << stage;
      }
    }
  });
}

TEST(Replicas, OfOneSpeedTakeAsLongAsOne) {
  const Spec spec = {.shape = {.schedule = Kind::TwoBW, .stages = 3, .replicas = 3, .microbatches = 4},
                     .updates = 5};
  const Lists one = all_instructions(spec);
  const Execution execution = execute(of_all_replicas(spec, one), {}, 3);
  EXPECT_EQ(execution.deadlock, "");
  EXPECT_EQ(execution.ticks(), execute(one).ticks());
}

TEST(Replicas, AStepWaitsForTheReductionOfEveryReplica) {
  const Spec spec = {.shape = {.schedule = Kind::Flush, .stages = 2, .replicas = 2, .microbatches = 2},
                     .updates = 1};
  Lists lists = of_all_replicas(spec, all_instructions(spec));
  lists[3] = without(lists[3], Op::ReduceGradients);
  EXPECT_EQ(execute(lists, {}, 2).deadlock,
            "replica 0 stage 0 waits forever at ReduceGradients batch 0; "
            "replica 0 stage 1 waits forever at Step batch 0 to W(1); "
            "replica 1 stage 0 waits forever at ReduceGradients batch 0; "
            "replica 1 stage 1 waits forever at Step batch 0 to W(1)");
}

TEST(Replicas, APredictionWaitsForTheSumOfEveryReplica) {
  const Spec spec = {.shape = {.schedule = Kind::TwoBW, .stages = 1, .replicas = 2, .microbatches = 2},
                     .updates = 2};
  const Lists one = all_instructions(spec);
  const Lists lists = {one[0], without(one[0], Op::ReducePartial)};
  EXPECT_EQ(execute(lists, {}, 2).deadlock,
            "replica 0 stage 0 waits forever at Predict batch 1 to P(1); "
            "replica 1 stage 0 waits forever at Predict batch 1 to P(1)");
}

}  // namespace
}  // namespace twobw::schedule
