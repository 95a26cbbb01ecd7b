// Replicas of the pipeline: what changes in the lists, and that all of them together still run.
#include <gtest/gtest.h>

#include <algorithm>

#include "broken.h"
#include "core/base/error.h"
#include "core/schedule/execution.h"
#include "specs.h"

namespace twobw::schedule {
namespace {

const Ranges kSmall = {.stages = full_sweeps() ? 5 : 3,
                       .microbatches = full_sweeps() ? 7 : 5,
                       .extra = 2,
                       .updates = 5,
                       .sync_updates = 2,
                       .evaluate_every = 2,
                       .replicas = 3};

std::vector<Instruction> without(std::vector<Instruction> list, Op op) {
  std::erase_if(list, [&](const Instruction& i) { return i.op == op; });
  return list;
}

std::int64_t position(const std::vector<Instruction>& list, Op op, std::int64_t batch) {
  const auto found = std::ranges::find_if(
      list, [&](const Instruction& i) { return i.op == op && i.microbatch < 0 && i.batch == batch; });
  return found - list.begin();
}

class EveryKindReplicated : public testing::TestWithParam<Kind> {};

INSTANTIATE_TEST_SUITE_P(Replicas, EveryKindReplicated, testing::ValuesIn(all_kinds()), [](const auto& info) {
  const std::string kind(name(info.param));
  return kind == "2bw" ? "TwoBW" : kind;
});

TEST_P(EveryKindReplicated, AllListsOfAllReplicasAreProved) {
  for_each_spec(GetParam(), kSmall, [](const Spec& spec) {
    const Report report = check(spec);
    ASSERT_EQ(report.problem(), "") << text(spec);
    ASSERT_GE(report.findings.size(), 12u);
  });
}

TEST_P(EveryKindReplicated, ReachesItsBoundsInALongRun) {
  for_each_spec(
      GetParam(), {.updates = 1, .sync_updates = 1, .evaluate_every = 0, .replicas = 2}, [](Spec spec) {
        spec.updates = 12 + 2 * (spec.shape.stages + spec.shape.extra);
        const Report report = check(spec);
        for (int stage = 0; stage < spec.shape.stages; ++stage) {
          const Peaks& peaks = report.peaks[static_cast<std::size_t>(stage)];
          ASSERT_EQ(peaks.in_flight, in_flight_bound(spec, stage)) << text(spec) << " " << stage;
          ASSERT_EQ(peaks.gradient_buffers, gradient_buffers(spec, stage)) << text(spec) << " " << stage;
          ASSERT_EQ(peaks.versions, versions_kept(spec, stage)) << text(spec) << " " << stage;
        }
      });
}

// Any one instruction lost or done twice is noticed.
TEST_P(EveryKindReplicated, NoInstructionIsIdle) {
  for (bool predict : {true, false}) {
    for (int m : {3, 5}) {
      expect_no_idle_instruction({.shape = {.schedule = GetParam(),
                                            .stages = 2,
                                            .replicas = 2,
                                            .microbatches = m,
                                            .extra = 1,
                                            .predict = predict},
                                  .updates = 4,
                                  .sync_updates = 1,
                                  .evaluate_every = 2});
    }
  }
}

TEST_P(EveryKindReplicated, TheOtherReplicasDoTheSameButDoNotEvaluate) {
  for_each_spec(GetParam(), kSmall, [](const Spec& spec) {
    for (int stage = 0; stage < spec.shape.stages; ++stage) {
      ASSERT_EQ(instructions(of_replica(spec, 0), stage), instructions(spec, stage));
      ASSERT_EQ(instructions(of_replica(spec, 1), stage), without(instructions(spec, stage), Op::Evaluate))
          << text(spec) << " stage " << stage;
    }
  });
}

TEST_P(EveryKindReplicated, ThoseThatShareTheStateComeToEvaluationsAndSavesTogether) {
  for_each_spec(GetParam(), kSmall, [](Spec spec) {
    if (spec.shape.replicas == 1) return;
    spec.shape.shard_state = true;
    spec.save_every = 2;
    for (int stage = 0; stage < spec.shape.stages; ++stage)
      ASSERT_TRUE(instructions(of_replica(spec, 1), stage) == instructions(spec, stage)) << text(spec);
  });
}

// Only 2BW has a place for the exchange over replicas; the lists of the others do not change. What is
// predicted from is exchanged at every stage.
TEST_P(EveryKindReplicated, OnlyStageZeroOf2bwRunsAnotherListThanAlone) {
  for_each_spec(GetParam(), kSmall, [](const Spec& spec) {
    Spec alone = spec;
    alone.shape.replicas = 1;
    for (int stage = spec.shape.schedule == Kind::TwoBW ? 1 : 0; stage < spec.shape.stages; ++stage) {
      auto list = instructions(spec, stage);
      if (spec.shape.predict) list = without(std::move(list), Op::ReducePartial);
      ASSERT_TRUE(list == instructions(alone, stage)) << text(spec) << " stage " << stage;
    }
  });
}

// The sum of two gradients begins one microbatch before it is needed; then the step is made, as late as it
// can, and P(2) after it.
TEST(Replicas, PredictFromASumThatOneMicrobatchHides) {
  EXPECT_EQ(
      work_of(
          {.shape = {.schedule = Kind::TwoBW, .stages = 2, .replicas = 2, .microbatches = 4, .step_slack = 4},
           .updates = 3},
          0),
      "Forward microbatch 0 (batch 0) on W(0)\n"
      "Forward microbatch 1 (batch 0) on W(0)\n"
      "Backward microbatch 0 (batch 0) on W(0)\n"
      "Forward microbatch 2 (batch 0) on W(0)\n"
      "Backward microbatch 1 (batch 0) on W(0)\n"
      "ReducePartial batch 0\n"
      "Forward microbatch 3 (batch 0) on W(0)\n"
      "Backward microbatch 2 (batch 0) on W(0)\n"
      "Predict batch 1 to P(1)\n"
      "Forward microbatch 4 (batch 1) on P(1)\n"
      "Backward microbatch 3 (batch 0) on W(0)\n"
      "ReduceGradients batch 0\n"
      "Forward microbatch 5 (batch 1) on P(1)\n"
      "Backward microbatch 4 (batch 1) on P(1)\n"
      "Forward microbatch 6 (batch 1) on P(1)\n"
      "Backward microbatch 5 (batch 1) on P(1)\n"
      "ReducePartial batch 1\n"
      "Forward microbatch 7 (batch 1) on P(1)\n"
      "Backward microbatch 6 (batch 1) on P(1)\n"
      "Step batch 0 to W(1)\n"
      "Predict batch 2 to P(2)\n"
      "Forward microbatch 8 (batch 2) on P(2)\n"
      "Backward microbatch 7 (batch 1) on P(1)\n"
      "ReduceGradients batch 1\n"
      "Forward microbatch 9 (batch 2) on P(2)\n"
      "Backward microbatch 8 (batch 2) on P(2)\n"
      "Forward microbatch 10 (batch 2) on P(2)\n"
      "Backward microbatch 9 (batch 2) on P(2)\n"
      "Forward microbatch 11 (batch 2) on P(2)\n"
      "Backward microbatch 10 (batch 2) on P(2)\n"
      "Backward microbatch 11 (batch 2) on P(2)\n"
      "ReduceGradients batch 2\n"
      "Step batch 1 to W(2)\n"
      "Step batch 2 to W(3)\n");
}

// Where only one gradient is in, nothing hides its sum.
TEST(Replicas, PredictRightAfterTheSumOfOneGradient) {
  const auto list = instructions(
      {.shape = {.schedule = Kind::TwoBW, .stages = 2, .replicas = 2, .microbatches = 2}, .updates = 2}, 0);
  const auto between = [&](Op a, Op b, std::int64_t batch) {
    return std::count_if(list.begin() + position(list, a, batch), list.begin() + position(list, b, batch + 1),
                         [](const Instruction& i) { return i.op == Op::Forward || i.op == Op::Backward; });
  };
  EXPECT_EQ(between(Op::ReducePartial, Op::Predict, 0), 0);
}

// The last batch is followed by none.
TEST(Replicas, SumWhatEveryPredictionNeedsAndNoMore) {
  for_each_spec(Kind::TwoBW, kSmall, [](const Spec& spec) {
    std::int64_t wanted = 0;
    for (std::int64_t batch = 0; batch < spec.updates; ++batch)
      wanted += spec.shape.replicas > 1 && predicts(spec, batch);
    for (int stage = 0; stage < spec.shape.stages; ++stage) {
      const auto list = instructions(spec, stage);
      const auto sums =
          std::ranges::count_if(list, [](const Instruction& i) { return i.op == Op::ReducePartial; });
      ASSERT_EQ(sums, wanted) << text(spec) << " stage " << stage;
    }
  });
}

// What crosses replicas has this long before anyone needs it.
TEST(Replicas, TheSlackIsTheDesigns) {
  for_each_spec(Kind::TwoBW, {.updates = 1, .sync_updates = 0, .evaluate_every = 0, .replicas = 2},
                [](Spec spec) {
                  if (spec.shape.replicas == 1 || !spec.shape.double_buffer_gradients) return;
                  spec.updates = 8;
                  for (int stage = 0; stage < spec.shape.stages; ++stage) {
                    const auto list = instructions(spec, stage);
                    const auto begin = list.begin() + position(list, Op::ReduceGradients, 3);
                    const auto end = list.begin() + position(list, Op::Step, 3);
                    const auto between =
                        std::count_if(begin, end, [](const Instruction& i) { return i.op == Op::Backward; });
                    const int fill = spec.shape.stages > 1 ? spec.shape.stages - 1 + spec.shape.extra : 0;
                    const int after = spec.shape.stages - 1 - stage + extra_at(spec, stage);
                    const bool true_within = spec.shape.predict && spec.shape.double_buffer_gradients &&
                                             2 * fill + spec.shape.step_slack <= spec.shape.microbatches &&
                                             fill + spec.shape.step_slack < spec.shape.microbatches;
                    const int needed =
                        true_within ? std::max(1, fill + spec.shape.step_slack) : spec.shape.microbatches;
                    ASSERT_EQ(between, needed - after) << text(spec) << " stage " << stage;
                    ASSERT_EQ(between, update_slack(spec, stage));
                  }
                });
}

TEST(Replicas, StageZeroHasASecondGradientBufferWhereItHasSlack) {
  using Counts = std::vector<int>;
  const auto buffers = [](int replicas, int m) {
    return by_stage(
        {.shape = {.schedule = Kind::TwoBW, .stages = 3, .replicas = replicas, .microbatches = m}},
        gradient_buffers);
  };
  EXPECT_EQ(buffers(1, 4), (Counts{1, 2, 2}));
  EXPECT_EQ(buffers(2, 4), (Counts{2, 2, 2}));
  EXPECT_EQ(buffers(2, 2), (Counts{1, 2, 2}));  // m = d-1: no slack at stage 0
  EXPECT_EQ(by_stage({.shape = {.schedule = Kind::Flush, .stages = 3, .replicas = 2}}, gradient_buffers),
            (Counts{1, 1, 1}));
  EXPECT_EQ(by_stage({.shape = {.schedule = Kind::Stash, .stages = 3, .replicas = 2}}, gradient_buffers),
            (Counts{1, 1, 1}));
}

TEST(Replicas, OneStageWithReplicasUpdatesInPlace) {
  const auto kept = [](int replicas) {
    return versions_kept(
        {.shape = {.schedule = Kind::TwoBW, .stages = 1, .replicas = replicas, .predict = false}}, 0);
  };
  EXPECT_EQ(kept(1), 2);
  EXPECT_EQ(kept(2), 1);
}

TEST(Replicas, CostNo2bwPipelineATick) {
  for (bool predict : {true, false}) {
    for (int d = 1; d <= 6; ++d) {
      for (int m = predict ? d : std::max(1, d - 1); m <= 10; ++m) {
        const Spec spec = {
            .shape = {
                .schedule = Kind::TwoBW, .stages = d, .replicas = 2, .microbatches = m, .predict = predict}};
        EXPECT_EQ(steady_ticks_per_batch(spec), 3 * m) << text(spec);
      }
    }
  }
}

// Side by side, replicas of one speed take as long as one of them.
TEST(Replicas, RunSideBySide) {
  const Spec spec = {.shape = {.schedule = Kind::TwoBW, .stages = 3, .replicas = 3, .microbatches = 4},
                     .updates = 5};
  const Lists one = all_instructions(spec);
  Lists three;
  for (int replica = 0; replica < 3; ++replica) three.insert(three.end(), one.begin(), one.end());
  const Execution execution = execute(three, {}, 3);
  EXPECT_EQ(execution.deadlock, "");
  EXPECT_EQ(execution.ticks(), execute(one).ticks());
}

TEST(Replicas, AStepWaitsForTheReductionOfEveryReplica) {
  const Spec spec = {.shape = {.schedule = Kind::Flush, .stages = 2, .replicas = 2, .microbatches = 2},
                     .updates = 1};
  Lists lists = all_instructions(spec);
  const Lists second = lists;
  lists.insert(lists.end(), second.begin(), second.end());
  std::erase_if(lists[3], [](const Instruction& i) { return i.op == Op::ReduceGradients; });
  EXPECT_EQ(execute(lists, {}, 2).deadlock,
            "replica 0 stage 0 waits for ever at ReduceGradients batch 0; "
            "replica 0 stage 1 waits for ever at Step batch 0 to W(1); "
            "replica 1 stage 0 waits for ever at ReduceGradients batch 0; "
            "replica 1 stage 1 waits for ever at Step batch 0 to W(1)");
}

// The sum over replicas is then hidden by one forward at most.
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

TEST(Replicas, APredictionWaitsForTheSumOfEveryReplica) {
  const Spec spec = {.shape = {.schedule = Kind::TwoBW, .stages = 1, .replicas = 2, .microbatches = 2},
                     .updates = 2};
  const Lists one = all_instructions(spec);
  Lists lists = {one[0], without(one[0], Op::ReducePartial)};
  EXPECT_EQ(execute(lists, {}, 2).deadlock,
            "replica 0 stage 0 waits for ever at Predict batch 1 to P(1); "
            "replica 1 stage 0 waits for ever at Predict batch 1 to P(1)");
}

TEST(Replicas, AStepTooEarlyOrTooLateIsFoundOut) {
  const Spec spec = {
      .shape = {.schedule = Kind::TwoBW, .stages = 3, .replicas = 2, .microbatches = 4, .predict = false},
      .updates = 4};
  EXPECT_EQ(check(spec).problem(), "");
  EXPECT_TRUE(Broken(spec).move_before(0, Op::Step, 1, Op::Backward, 7).breaks(Property::WeightBuffers));
  EXPECT_TRUE(Broken(spec).move_after(0, Op::Step, 0, Op::Forward, 8).breaks(Property::WeightBuffers));
  EXPECT_TRUE(Broken(spec).move_after(0, Op::Step, 0, Op::Backward, 8).breaks(Property::GradientBuffers));
  EXPECT_TRUE(Broken(spec).drop(0, Op::ReduceGradients, 2).breaks(Property::Progress));
  EXPECT_TRUE(Broken(spec).move_before(0, Op::Step, 1, Op::ReduceGradients, 1).breaks(Property::Progress));
}

TEST(Replicas, AreRefusedByNameWhenTheyMakeNoRun) {
  const auto refusal = [](const Spec& spec) {
    try {
      validate(spec);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal({.shape = {.stages = 3, .replicas = 341}}), "");
  EXPECT_EQ(refusal({.shape = {.replicas = 0}}), "pipeline.replicas is 0; it must be at least 1");
  EXPECT_EQ(
      refusal({.shape = {.stages = 3, .replicas = 342}}),
      "pipeline.replicas is 342; with 3 stages it must be at most 341, for a run has at most 1024 workers");
  EXPECT_NE(refusal({.shape = {.stages = 3, .replicas = 2147483647}}), "");
}

TEST(Replicas, AreNamedOnlyWhereThereAreSeveral) {
  EXPECT_EQ(worker_name(1, 0, 2), "stage 2");
  EXPECT_EQ(worker_name(3, 1, 2), "replica 1 stage 2");
}

}  // namespace
}  // namespace twobw::schedule
