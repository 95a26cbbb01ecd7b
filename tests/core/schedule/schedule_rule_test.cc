#include "core/schedule/schedule_rule.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/error.h"
#include "specs.h"

namespace twobw::schedule {
namespace {

const Ranges kRanges = {.stages = full_sweeps() ? 5 : 4,
                        .microbatches = full_sweeps() ? 6 : 4,
                        .extra = full_sweeps() ? 2 : 1,
                        .updates = full_sweeps() ? 5 : 4,
                        .sync_updates = 2,
                        .evaluate_every = 2,
                        .replicas = 2};

// The list of a run in which every stage declines batch `last`.
std::vector<Instruction> stopped(const Spec& spec, int stage, std::int64_t last) {
  std::vector<Instruction> list;
  Stream stream(spec, stage);
  while (auto instruction = stream.next()) {
    if (instruction->op == Op::BeginBatch && instruction->batch == last) stream.stop_before(last);
    list.push_back(*instruction);
  }
  return list;
}

// Replicas may have started the partial sum for the declined batch before it is declined.
std::vector<Instruction> without_begin(std::vector<Instruction> list, std::int64_t batch) {
  std::erase_if(list, [&](const Instruction& i) {
    return (i.op == Op::BeginBatch && i.batch == batch) ||
           (i.op == Op::ReducePartial && i.batch == batch - 1);
  });
  return list;
}

// The places of messages, sums and steps, which the drawings of grid_test.cc do not show.
TEST(Stream, ListOfAFirstStageThatPredicts) {
  EXPECT_EQ(compact(instructions(
                {.shape = {.schedule = Kind::TwoBW, .stages = 2, .microbatches = 2}, .updates = 3}, 0)),
            "J0 F0@W0 A0 F1@W0 A1 g0 B0@W0 "
            "J1 P1 F2@P1 A2 g1 B1@W0 R0 S1 F3@P1 A3 g2 B2@P1 "
            "J2 P2 F4@P2 A4 g3 B3@P1 R1 S2 F5@P2 A5 g4 B4@P2 g5 B5@P2 R2 S3");
}

// One microbatch hides the partial sum of the gradients; the step comes as late as possible.
TEST(Stream, ListOfAReplicaThatSumsBeforeItPredicts) {
  const Spec spec = {
      .shape = {.schedule = Kind::TwoBW, .stages = 2, .replicas = 2, .microbatches = 4, .step_slack = 4},
      .updates = 3};
  EXPECT_EQ(compact(instructions(spec, 0), /*work_only=*/true),
            "F0@W0 F1@W0 B0@W0 F2@W0 B1@W0 r0 F3@W0 B2@W0 "
            "P1 F4@P1 B3@W0 R0 F5@P1 B4@P1 F6@P1 B5@P1 r1 F7@P1 B6@P1 S1 "
            "P2 F8@P2 B7@P1 R1 F9@P2 B8@P2 F10@P2 B9@P2 F11@P2 B10@P2 B11@P2 R2 S2 S3");
}

TEST(Stream, PredictionsChangeTheWeightsAndNotTheOrderOfWork) {
  using Work = std::vector<std::pair<Op, std::int64_t>>;
  const auto work = [](const Spec& spec, int stage) {
    Work result;
    for (const Instruction& i : instructions(spec, stage))
      if (i.microbatch >= 0) result.emplace_back(i.op, i.microbatch);
    return result;
  };
  for_each_spec(Kind::TwoBW, kRanges, [&](const Spec& spec) {
    if (!spec.shape.predict) return;
    Spec paper = spec;
    paper.shape.predict = false;
    for (int stage = 0; stage < spec.shape.stages; ++stage)
      ASSERT_TRUE(work(spec, stage) == work(paper, stage)) << text(spec) << " stage " << stage;
  });
}

// The prediction after a step can be fused with it.
TEST(Stream, ShowsTheNextInstructionOfTheSameWork) {
  Stream stream({.shape = {.schedule = Kind::TwoBW, .stages = 2, .microbatches = 2}, .updates = 3}, 1);
  EXPECT_EQ(stream.upcoming(), nullptr);  // not decided yet
  while (stream.next()->op != Op::Step) {
  }
  ASSERT_NE(stream.upcoming(), nullptr);
  EXPECT_EQ(compact(*stream.upcoming()), "P2");
}

TEST(Stream, OneGradientBufferOnlyMovesTheSteps) {
  for_each_spec(Kind::TwoBW, kRanges, [&](Spec spec) {
    if (spec.shape.double_buffer_gradients) return;
    Spec two = spec;
    two.shape.double_buffer_gradients = true;
    two.shape.step_slack = 100;  // no switch to true weights
    for (int stage = 0; stage < spec.shape.stages; ++stage) {
      const auto one_list = instructions(spec, stage), two_list = instructions(two, stage);
      ASSERT_EQ(without(one_list, Op::Step), without(two_list, Op::Step)) << text(spec) << " stage " << stage;
      if (!steps_late(spec, stage)) {
        ASSERT_EQ(one_list, two_list) << text(spec) << " stage " << stage;
      }
    }
  });
}

TEST(Stream, ALongRunCostsNothingInAdvance) {
  Stream stream({.shape = {.schedule = Kind::TwoBW, .stages = 4}, .updates = 1'000'000'000'000}, 2);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(stream.next().has_value());
}

TEST(Stream, EndsForGood) {
  Stream stream({.shape = {.schedule = Kind::Flush, .stages = 1, .microbatches = 1}}, 0);
  while (stream.next()) {
  }
  EXPECT_EQ(stream.next(), std::nullopt);
}

TEST(Stream, AnInvalidSpecIsRefused) {
  EXPECT_THROW(Stream({.shape = {.schedule = Kind::TwoBW, .stages = 5, .microbatches = 3}}, 0), InputError);
}

// All stages agree then, because those of the shorter run do.
TEST(Stream, StoppedBeforeABatchItIsTheShorterRun) {
  for (Kind kind : all_kinds()) {
    for_each_spec(kind, kRanges, [](const Spec& spec) {
      for (std::int64_t last = 1; last < spec.updates; ++last) {
        Spec shorter = spec;
        shorter.updates = last;
        for (int stage = 0; stage < spec.shape.stages; ++stage) {
          ASSERT_EQ(without_begin(stopped(spec, stage, last), last), instructions(shorter, stage))
              << text(spec) << " stage " << stage << " stopped before batch " << last;
        }
      }
    });
    EXPECT_EQ(compact(stopped({.shape = {.schedule = kind, .stages = 2}, .evaluate_every = 1}, 1, 0)), "J0");
  }
}

TEST(Stream, StoppingBeforeFinishedWorkIsABug) {
  Stream stream({.shape = {.schedule = Kind::Flush, .stages = 1, .microbatches = 1}, .updates = 3}, 0);
  for (int i = 0; i < 8; ++i) stream.next();  // well into batch 1
  EXPECT_DEATH(stream.stop_before(0), "stop before batch 0");
}

}  // namespace
}  // namespace twobw::schedule
