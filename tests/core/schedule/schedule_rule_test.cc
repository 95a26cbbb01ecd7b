#include "core/schedule/schedule_rule.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/error.h"
#include "specs.h"

namespace twobw::schedule {
namespace {

std::string text(const std::vector<Instruction>& list) {
  std::string result;
  for (const Instruction& instruction : list) result += describe(instruction) + "\n";
  return result;
}

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

// Replicas may have summed what the batch would have been predicted from before they are told.
std::vector<Instruction> without_begin(std::vector<Instruction> list, std::int64_t batch) {
  std::erase_if(list, [&](const Instruction& i) {
    return (i.op == Op::BeginBatch && i.batch == batch) ||
           (i.op == Op::ReducePartial && i.batch == batch - 1);
  });
  return list;
}

TEST(Stream, TheLastStageStepsAsLateAsItCan) {
  EXPECT_EQ(
      text(instructions({.shape = {.schedule = Kind::TwoBW, .stages = 2, .microbatches = 1, .predict = false},
                         .updates = 3},
                        1)),
      "BeginBatch batch 0\n"
      "RecvActivation microbatch 0 (batch 0)\n"
      "Forward microbatch 0 (batch 0) on W(0)\n"
      "Backward microbatch 0 (batch 0) on W(0)\n"
      "SendGradient microbatch 0 (batch 0)\n"
      "ReduceGradients batch 0\n"
      "BeginBatch batch 1\n"
      "RecvActivation microbatch 1 (batch 1)\n"
      "Forward microbatch 1 (batch 1) on W(0)\n"
      "Backward microbatch 1 (batch 1) on W(0)\n"
      "SendGradient microbatch 1 (batch 1)\n"
      "ReduceGradients batch 1\n"
      "BeginBatch batch 2\n"
      "Step batch 0 to W(1)\n"
      "RecvActivation microbatch 2 (batch 2)\n"
      "Forward microbatch 2 (batch 2) on W(1)\n"
      "Backward microbatch 2 (batch 2) on W(1)\n"
      "SendGradient microbatch 2 (batch 2)\n"
      "ReduceGradients batch 2\n"
      "Step batch 1 to W(2)\n"
      "Step batch 2 to W(3)\n");
}

TEST(Stream, TheFirstStagePredictsBeforeABatchFromTheGradientsThatAreIn) {
  EXPECT_EQ(text(instructions(
                {.shape = {.schedule = Kind::TwoBW, .stages = 2, .microbatches = 2}, .updates = 3}, 0)),
            "BeginBatch batch 0\n"
            "Forward microbatch 0 (batch 0) on W(0)\n"
            "SendActivation microbatch 0 (batch 0)\n"
            "Forward microbatch 1 (batch 0) on W(0)\n"
            "SendActivation microbatch 1 (batch 0)\n"
            "RecvGradient microbatch 0 (batch 0)\n"
            "Backward microbatch 0 (batch 0) on W(0)\n"
            "BeginBatch batch 1\n"
            "Predict batch 1 to P(1)\n"
            "Forward microbatch 2 (batch 1) on P(1)\n"
            "SendActivation microbatch 2 (batch 1)\n"
            "RecvGradient microbatch 1 (batch 0)\n"
            "Backward microbatch 1 (batch 0) on W(0)\n"
            "ReduceGradients batch 0\n"
            "Step batch 0 to W(1)\n"
            "Forward microbatch 3 (batch 1) on P(1)\n"
            "SendActivation microbatch 3 (batch 1)\n"
            "RecvGradient microbatch 2 (batch 1)\n"
            "Backward microbatch 2 (batch 1) on P(1)\n"
            "BeginBatch batch 2\n"
            "Predict batch 2 to P(2)\n"
            "Forward microbatch 4 (batch 2) on P(2)\n"
            "SendActivation microbatch 4 (batch 2)\n"
            "RecvGradient microbatch 3 (batch 1)\n"
            "Backward microbatch 3 (batch 1) on P(1)\n"
            "ReduceGradients batch 1\n"
            "Step batch 1 to W(2)\n"
            "Forward microbatch 5 (batch 2) on P(2)\n"
            "SendActivation microbatch 5 (batch 2)\n"
            "RecvGradient microbatch 4 (batch 2)\n"
            "Backward microbatch 4 (batch 2) on P(2)\n"
            "RecvGradient microbatch 5 (batch 2)\n"
            "Backward microbatch 5 (batch 2) on P(2)\n"
            "ReduceGradients batch 2\n"
            "Step batch 2 to W(3)\n");
}

TEST(Stream, WithOneGradientBufferTheLastStageStepsAfterItsPrediction) {
  const Spec spec = {
      .shape = {.schedule = Kind::TwoBW, .stages = 2, .microbatches = 2, .double_buffer_gradients = false},
      .updates = 3};
  EXPECT_EQ(work_of(spec, 1),
            "Forward microbatch 0 (batch 0) on W(0)\n"
            "Backward microbatch 0 (batch 0) on W(0)\n"
            "Forward microbatch 1 (batch 0) on W(0)\n"
            "Backward microbatch 1 (batch 0) on W(0)\n"
            "ReduceGradients batch 0\n"
            "Predict batch 1 to P(1)\n"
            "Forward microbatch 2 (batch 1) on P(1)\n"
            "Step batch 0 to W(1)\n"
            "Backward microbatch 2 (batch 1) on P(1)\n"
            "Forward microbatch 3 (batch 1) on P(1)\n"
            "Backward microbatch 3 (batch 1) on P(1)\n"
            "ReduceGradients batch 1\n"
            "Predict batch 2 to P(2)\n"
            "Forward microbatch 4 (batch 2) on P(2)\n"
            "Step batch 1 to W(2)\n"
            "Backward microbatch 4 (batch 2) on P(2)\n"
            "Forward microbatch 5 (batch 2) on P(2)\n"
            "Backward microbatch 5 (batch 2) on P(2)\n"
            "ReduceGradients batch 2\n"
            "Step batch 2 to W(3)\n");
}

// What is computed when is no other than under the paper's rule: a prediction comes between.
TEST(Stream, PredictionsChangeTheWeightsAndNotTheOrderOfWork) {
  using Work = std::vector<std::pair<Op, std::int64_t>>;
  const auto work = [](const Spec& spec, int stage) {
    Work result;
    for (const Instruction& i : instructions(spec, stage))
      if (i.microbatch >= 0) result.emplace_back(i.op, i.microbatch);
    return result;
  };
  const Ranges ranges = {.stages = 5, .microbatches = 6, .extra = 2, .updates = 4, .replicas = 2};
  for_each_spec(Kind::TwoBW, ranges, [&](const Spec& spec) {
    if (!spec.shape.predict) return;
    Spec paper = spec;
    paper.shape.predict = false;
    for (int stage = 0; stage < spec.shape.stages; ++stage)
      ASSERT_TRUE(work(spec, stage) == work(paper, stage)) << text(spec) << " stage " << stage;
  });
}

// The prediction that follows a step can be made with it.
TEST(Stream, ShowsTheNextOfTheSameWork) {
  Stream stream({.shape = {.schedule = Kind::TwoBW, .stages = 2, .microbatches = 2}, .updates = 3}, 1);
  EXPECT_EQ(stream.upcoming(), nullptr);  // nothing is decided yet
  const Instruction* after_step = nullptr;
  while (auto instruction = stream.next()) {
    if (instruction->op != Op::Step) continue;
    after_step = stream.upcoming();
    break;
  }
  ASSERT_NE(after_step, nullptr);
  EXPECT_EQ(describe(*after_step), "Predict batch 2 to P(2)");
}

// The gradient buffers decide when a stage steps and nothing else.
TEST(Stream, OneGradientBufferOnlyMovesTheSteps) {
  const auto without_steps = [](const Spec& spec, int stage) {
    std::vector<Instruction> list = instructions(spec, stage);
    std::erase_if(list, [](const Instruction& i) { return i.op == Op::Step; });
    return list;
  };
  const Ranges ranges = {.stages = 5, .microbatches = 6, .extra = 2, .updates = 4, .replicas = 2};
  for_each_spec(Kind::TwoBW, ranges, [&](Spec spec) {
    if (spec.shape.double_buffer_gradients) return;
    Spec two = spec;
    two.shape.double_buffer_gradients = true;
    two.shape.step_slack = 100;  // with it batches may go over to true weights
    for (int stage = 0; stage < spec.shape.stages; ++stage) {
      ASSERT_EQ(without_steps(spec, stage), without_steps(two, stage)) << text(spec) << " stage " << stage;
      if (steps_late(spec, stage)) continue;
      ASSERT_EQ(instructions(spec, stage), instructions(two, stage)) << text(spec) << " stage " << stage;
    }
  });
}

TEST(Stream, OneStageAloneNeitherSendsNorReceives) {
  for (Kind kind : all_kinds()) {
    for (const Instruction& i : instructions({.shape = {.schedule = kind, .stages = 1}, .updates = 2}, 0)) {
      EXPECT_TRUE(i.op != Op::SendActivation && i.op != Op::RecvActivation && i.op != Op::SendGradient &&
                  i.op != Op::RecvGradient)
          << describe(i);
    }
  }
}

TEST(Stream, ALongRunCostsNothingUntilAsked) {
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

// The stages agree then as those of the shorter run do, which the checker proves.
TEST(Stream, StoppedBeforeABatchItIsTheShorterRun) {
  const Ranges ranges = {.stages = 5,
                         .microbatches = 6,
                         .extra = 2,
                         .updates = 5,
                         .sync_updates = 2,
                         .evaluate_every = 2,
                         .replicas = 2};
  for (Kind kind : all_kinds()) {
    for_each_spec(kind, ranges, [](const Spec& spec) {
      for (std::int64_t last = 1; last < spec.updates; ++last) {
        Spec shorter = spec;
        shorter.updates = last;
        for (int stage = 0; stage < spec.shape.stages; ++stage) {
          ASSERT_EQ(without_begin(stopped(spec, stage, last), last), instructions(shorter, stage))
              << text(spec) << " stage " << stage << " stopped before batch " << last;
        }
      }
    });
  }
}

TEST(Stream, StoppedAtOnceItDoesNothing) {
  for (Kind kind : all_kinds()) {
    const auto list =
        stopped({.shape = {.schedule = kind, .stages = 2}, .updates = 3, .evaluate_every = 1}, 1, 0);
    EXPECT_EQ(text(list), "BeginBatch batch 0\n");
  }
}

TEST(Stream, StoppingAfterTheLastBatchChangesNothing) {
  const Spec spec = {.shape = {.schedule = Kind::TwoBW, .stages = 2}, .updates = 2};
  Stream stream(spec, 0);
  stream.stop_before(7);
  std::vector<Instruction> list;
  while (auto instruction = stream.next()) list.push_back(*instruction);
  EXPECT_EQ(list, instructions(spec, 0));
}

TEST(Stream, StoppingBeforeWorkAlreadyDoneIsOurMistake) {
  Stream stream({.shape = {.schedule = Kind::Flush, .stages = 1, .microbatches = 1}, .updates = 3}, 0);
  for (int i = 0; i < 8; ++i) stream.next();  // well into batch 1
  EXPECT_DEATH(stream.stop_before(0), "stop before batch 0");
}

TEST(Stream, ALaterStageIsToldEvenWhileEarlierBatchesAreInFlight) {
  const Spec spec = {.shape = {.schedule = Kind::TwoBW, .stages = 3, .microbatches = 2, .predict = false},
                     .updates = 4};
  const auto list = stopped(spec, 0, 2);
  const auto begin =
      std::ranges::find_if(list, [](const Instruction& i) { return i.op == Op::BeginBatch && i.batch == 2; });
  ASSERT_NE(begin, list.end());
  EXPECT_TRUE(std::any_of(begin, list.end(), [](const Instruction& i) { return i.op == Op::Backward; }));
  EXPECT_TRUE(std::none_of(begin, list.end(), [](const Instruction& i) { return i.op == Op::Forward; }));
}

}  // namespace
}  // namespace twobw::schedule
