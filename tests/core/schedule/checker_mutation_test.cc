// Broken lists, each with the property that must be reported.
#include <gtest/gtest.h>

#include "broken.h"

namespace twobw::schedule {
namespace {

// The rule of the paper.
const Spec two_bw = {.shape = {.schedule = Kind::TwoBW, .stages = 3, .microbatches = 4, .predict = false},
                     .updates = 4,
                     .evaluate_every = 2};
const Spec predicted = {
    .shape = {.schedule = Kind::TwoBW, .stages = 3, .microbatches = 4}, .updates = 4, .evaluate_every = 2};
const Spec replicated = {.shape = {.schedule = Kind::TwoBW, .stages = 3, .replicas = 2, .microbatches = 4},
                         .updates = 4};
const Spec flush = {.shape = {.schedule = Kind::Flush, .stages = 3, .microbatches = 4}, .updates = 3};

TEST(BrokenLists, AreCompleteBeforeTheyAreBroken) {
  EXPECT_EQ(check(two_bw).problem(), "");
  EXPECT_EQ(check(predicted).problem(), "");
  EXPECT_EQ(check(replicated).problem(), "");
  EXPECT_EQ(check(flush).problem(), "");
}

TEST(BrokenLists, Shape) {
  Broken beyond(two_bw);
  beyond.at(1, Op::Forward, 15).microbatch = 16;
  EXPECT_TRUE(beyond.breaks(Property::Shape));

  Broken batch(two_bw);
  batch.at(1, Op::Forward, 5).batch = 0;
  EXPECT_TRUE(batch.breaks(Property::Shape));

  Broken version(two_bw);
  version.at(1, Op::Backward, 5).version = -1;
  EXPECT_TRUE(version.breaks(Property::Shape));

  Broken peer(two_bw);
  peer.append(2, {.op = Op::SendActivation, .batch = 0, .microbatch = 0});
  EXPECT_TRUE(peer.breaks(Property::Shape));

  EXPECT_FALSE(check(two_bw, Lists(2)).holds(Property::Shape));
}

TEST(BrokenLists, ADroppedSendStopsProgress) {
  EXPECT_TRUE(Broken(two_bw).drop(0, Op::SendActivation, 6).breaks(Property::Progress));
  EXPECT_TRUE(Broken(two_bw).drop(2, Op::SendGradient, 6).breaks(Property::Progress));
}

TEST(BrokenLists, ADroppedReductionStopsEveryStage) {
  EXPECT_TRUE(Broken(two_bw).drop(1, Op::ReduceGradients, 2).breaks(Property::Progress));
}

TEST(BrokenLists, ACircleOfWaitsStopsProgress) {
  // Stage 0 waits for a gradient before it sends the activation the gradient comes from.
  EXPECT_TRUE(
      Broken(two_bw).move_after(0, Op::SendActivation, 0, Op::RecvGradient, 0).breaks(Property::Progress));
  // The last stage updates batch 1 before it sends the gradient that stage 0 needs to end batch 1.
  EXPECT_TRUE(Broken(flush).move_before(2, Op::Step, 1, Op::SendGradient, 7).breaks(Property::Progress));
}

TEST(BrokenLists, SwappedOpsBreakTheDataflow) {
  EXPECT_TRUE(Broken(two_bw).swap(1, Op::Forward, 5, Op::SendActivation, 5).breaks(Property::Dataflow));
  EXPECT_TRUE(Broken(two_bw).swap(1, Op::RecvActivation, 5, Op::Forward, 5).breaks(Property::Dataflow));
  EXPECT_TRUE(Broken(two_bw).swap(1, Op::Backward, 5, Op::RecvGradient, 5).breaks(Property::Dataflow));
  EXPECT_TRUE(Broken(two_bw).swap(1, Op::Backward, 5, Op::SendGradient, 5).breaks(Property::Dataflow));
  EXPECT_TRUE(Broken(two_bw).swap(0, Op::ReduceGradients, 1, Op::Step, 1).breaks(Property::Dataflow));
  EXPECT_TRUE(Broken(two_bw).swap(2, Op::Forward, 5, Op::Backward, 5).breaks(Property::Dataflow));
}

TEST(BrokenLists, AReductionBeforeTheLastBackwardBreaksTheDataflow) {
  EXPECT_TRUE(
      Broken(two_bw).move_before(1, Op::ReduceGradients, 1, Op::Backward, 7).breaks(Property::Dataflow));
}

TEST(BrokenLists, AForwardBeforeItsBatchBeginsBreaksTheDataflow) {
  EXPECT_TRUE(Broken(two_bw).swap(0, Op::BeginBatch, 1, Op::Forward, 4).breaks(Property::Dataflow));
}

TEST(BrokenLists, ADoubledForwardIsNotOnce) {
  EXPECT_TRUE(Broken(two_bw).repeat(1, Op::Forward, 5).breaks(Property::Once));
}

TEST(BrokenLists, ADroppedBackwardIsNotOnce) {
  EXPECT_TRUE(Broken(two_bw).drop(1, Op::Backward, 15).breaks(Property::Once));
}

TEST(BrokenLists, MicrobatchesOutOfOrderAreNotOnceAscending) {
  EXPECT_TRUE(Broken(two_bw).swap(0, Op::Forward, 5, Op::Forward, 6).breaks(Property::Once));
  EXPECT_TRUE(Broken(two_bw).swap(2, Op::Backward, 5, Op::Backward, 6).breaks(Property::Once));
}

TEST(BrokenLists, AWrongVersionAtOneStage) {
  Broken broken(two_bw);
  broken.at(1, Op::Forward, 9).version = 2;
  broken.at(1, Op::Backward, 9).version = 2;
  EXPECT_TRUE(broken.breaks(Property::VersionRule));
  EXPECT_TRUE(broken.breaks(Property::Agreement));
}

TEST(BrokenLists, AWrongVersionAtAllStages) {
  Broken broken(two_bw);
  for (std::size_t stage = 0; stage < 3; ++stage) {
    broken.at(stage, Op::Forward, 9).version = 0;
    broken.at(stage, Op::Backward, 9).version = 0;
  }
  EXPECT_TRUE(broken.breaks(Property::VersionRule));
  EXPECT_TRUE(broken.keeps(Property::Agreement));
}

TEST(BrokenLists, ABackwardOnOtherWeightsThanItsForward) {
  Broken broken(two_bw);
  broken.at(1, Op::Backward, 9).version = 2;
  EXPECT_TRUE(broken.breaks(Property::VersionRule));
}

TEST(BrokenLists, StashMustUseItsNewestWeights) {
  Broken broken({.shape = {.schedule = Kind::Stash, .stages = 3, .microbatches = 2}, .updates = 4});
  const std::int64_t newest = broken.at(1, Op::Forward, 5).version;
  ASSERT_GT(newest, 0);
  broken.at(1, Op::Forward, 5).version = newest - 1;
  broken.at(1, Op::Backward, 5).version = newest - 1;
  EXPECT_TRUE(broken.breaks(Property::VersionRule));
}

TEST(BrokenLists, OneForwardTooManyInFlight) {
  EXPECT_TRUE(Broken(two_bw).move_before(0, Op::Forward, 6, Op::Backward, 3).breaks(Property::InFlight));
}

TEST(BrokenLists, ASlotStillTaken) {
  Broken broken(two_bw);
  const int taken = broken.at(0, Op::Forward, 5).slot;
  broken.at(0, Op::Forward, 6).slot = taken;
  broken.at(0, Op::Backward, 6).slot = taken;
  EXPECT_TRUE(broken.breaks(Property::Slots));
}

TEST(BrokenLists, ASlotThatIsNotThere) {
  Broken broken(two_bw);
  broken.at(0, Op::Forward, 6).slot = 3;
  broken.at(0, Op::Backward, 6).slot = 3;
  EXPECT_TRUE(broken.breaks(Property::Slots));
}

TEST(BrokenLists, ABackwardFromTheWrongSlot) {
  Broken broken(two_bw);
  broken.at(0, Op::Backward, 6).slot = broken.at(0, Op::Backward, 7).slot;
  EXPECT_TRUE(broken.breaks(Property::Slots));
}

TEST(BrokenLists, AStepTooEarlyOverwritesWeightsInUse) {
  // W(2) takes the place of W(0), on which the last microbatch of batch 1 has yet to run backward.
  EXPECT_TRUE(Broken(two_bw).move_before(0, Op::Step, 1, Op::Backward, 7).breaks(Property::WeightBuffers));
  EXPECT_TRUE(Broken(flush).move_before(1, Op::Step, 0, Op::Backward, 3).breaks(Property::WeightBuffers));
}

TEST(BrokenLists, AStepTooLateLeavesNothingToRead) {
  EXPECT_TRUE(Broken(two_bw).move_after(1, Op::Step, 0, Op::Forward, 8).breaks(Property::WeightBuffers));
}

TEST(BrokenLists, AStepTooLateBlocksItsGradientBuffer) {
  EXPECT_TRUE(Broken(two_bw).move_after(1, Op::Step, 0, Op::Backward, 8).breaks(Property::GradientBuffers));
  EXPECT_TRUE(Broken(flush).move_after(1, Op::Step, 0, Op::Backward, 4).breaks(Property::GradientBuffers));
}

TEST(BrokenLists, WithOneGradientBufferAStepMustComeBeforeTheNextBackward) {
  Spec one = two_bw;
  one.shape.double_buffer_gradients = false;
  EXPECT_TRUE(Broken(one).keeps(Property::GradientBuffers));
  EXPECT_TRUE(Broken(one).move_after(1, Op::Step, 1, Op::Backward, 8).breaks(Property::GradientBuffers));
  EXPECT_TRUE(Broken(one).move_before(1, Op::Step, 1, Op::Backward, 7).breaks(Property::WeightBuffers));
}

TEST(BrokenLists, AStepBeforeAnyBackwardFindsNoGradient) {
  EXPECT_TRUE(Broken(flush).move_before(1, Op::Step, 1, Op::Backward, 4).breaks(Property::GradientBuffers));
}

TEST(BrokenLists, UpdatesLostRepeatedOrOutOfOrder) {
  EXPECT_TRUE(Broken(two_bw).drop(1, Op::Step, 3).breaks(Property::Updates));
  EXPECT_TRUE(Broken(two_bw).repeat(1, Op::Step, 2).breaks(Property::Updates));
  EXPECT_TRUE(Broken(two_bw).swap(1, Op::Step, 2, Op::Step, 3).breaks(Property::Updates));
  EXPECT_TRUE(Broken(two_bw).repeat(1, Op::ReduceGradients, 2).breaks(Property::Updates));
}

TEST(BrokenLists, AnUpdateToTheWrongVersion) {
  Broken broken(two_bw);
  broken.at(1, Op::Step, 2).version = 2;
  EXPECT_TRUE(broken.breaks(Property::Updates));
}

// Stage 0 has two gradients of batch 1 when it predicts P(2).
TEST(BrokenLists, APredictionOneBackwardTooEarly) {
  EXPECT_EQ(Broken(predicted).move_before(0, Op::Predict, 2, Op::Backward, 5).finding(Property::Predictions),
            "stage 0: Predict batch 2 to P(2) has 1 gradients, 2 are due");
}

TEST(BrokenLists, APredictionOneBackwardTooLate) {
  Broken broken(predicted);
  broken.move_after(0, Op::Forward, 8, Op::Backward, 6).move_after(0, Op::Predict, 2, Op::Backward, 6);
  EXPECT_EQ(broken.finding(Property::Predictions),
            "stage 0: Predict batch 2 to P(2) has 3 gradients, 2 are due");
}

TEST(BrokenLists, AForwardBeforeItsPrediction) {
  Broken broken(predicted);
  broken.move_after(0, Op::Predict, 2, Op::Forward, 8);
  EXPECT_EQ(broken.finding(Property::Predictions),
            "stage 0: Forward microbatch 8 (batch 2) on P(2) comes before Predict");
  EXPECT_TRUE(broken.breaks(Property::WeightBuffers));
}

// P(1) is W(0) and a step; the last stage has all that it takes to make W(1) before that.
TEST(BrokenLists, APredictionFromTheWrongUpdate) {
  Broken broken(predicted);
  broken.move_before(2, Op::Step, 0, Op::Predict, 1);
  EXPECT_EQ(broken.finding(Property::Predictions),
            "stage 2: Predict batch 1 to P(1) when 1 updates are made");
  EXPECT_EQ(broken.finding(Property::GradientBuffers),
            "stage 2: Predict batch 1 to P(1) finds no gradient of batch 0");
  EXPECT_EQ(Broken(predicted).move_after(2, Op::Step, 0, Op::Predict, 2).finding(Property::Predictions),
            "stage 2: Predict batch 2 to P(2) when 0 updates are made");
}

TEST(BrokenLists, PredictionsLostRepeatedOrOutOfOrder) {
  EXPECT_EQ(Broken(predicted).drop(1, Op::Predict, 3).finding(Property::Predictions),
            "stage 1: Forward microbatch 12 (batch 3) on P(3) comes before Predict");
  EXPECT_EQ(Broken(predicted).repeat(1, Op::Predict, 3).finding(Property::Predictions),
            "stage 1: Predict batch 3 to P(3) is not the next to be predicted");
  EXPECT_TRUE(Broken(predicted).swap(1, Op::Predict, 2, Op::Predict, 3).breaks(Property::Predictions));
}

TEST(BrokenLists, APredictionToTheWrongVersion) {
  Broken broken(predicted);
  broken.at(1, Op::Predict, 2).version = 1;
  EXPECT_EQ(broken.finding(Property::Predictions), "stage 1: Predict batch 2 to P(1) must write P(2)");
}

// A P(j) and a W(j) have the same number.
TEST(BrokenLists, ABatchThatTakesTrueWeightsForPredictedOnes) {
  Broken broken(predicted);
  broken.at(1, Op::Forward, 9).predicted = false;
  EXPECT_EQ(broken.finding(Property::VersionRule),
            "stage 1: Forward microbatch 9 (batch 2) on W(2) must be on predicted weights");
  Broken first(predicted);
  first.at(1, Op::Backward, 1).predicted = true;
  EXPECT_EQ(first.finding(Property::VersionRule),
            "stage 1: Backward microbatch 1 (batch 0) on P(0) must be on true weights");
}

TEST(BrokenLists, APredictionWhereThereIsNone) {
  Broken paper(two_bw);
  paper.append(1, {.op = Op::Predict, .batch = 1, .version = 1, .predicted = true});
  EXPECT_TRUE(paper.breaks(Property::Predictions));
  Broken synchronous(flush);
  synchronous.append(1, {.op = Op::Predict, .batch = 1, .version = 1, .predicted = true});
  EXPECT_TRUE(synchronous.breaks(Property::Predictions));
  Spec spec = predicted;
  spec.sync_updates = 2;
  Broken start(spec);
  start.append(1, {.op = Op::Predict, .batch = 2, .version = 2, .predicted = true});
  EXPECT_TRUE(start.breaks(Property::Predictions));
}

// With a second gradient buffer batch 2 may accumulate while batch 1 waits, and no batch may be lost to it.
TEST(BrokenLists, APredictedBatchOverwritesNoGradientThatWaits) {
  EXPECT_TRUE(
      Broken(predicted).move_after(1, Op::Step, 0, Op::Backward, 8).breaks(Property::GradientBuffers));
  Spec one = predicted;
  one.shape.double_buffer_gradients = false;
  EXPECT_TRUE(Broken(one).keeps(Property::GradientBuffers));
  EXPECT_TRUE(Broken(one).move_after(1, Op::Step, 1, Op::Backward, 8).breaks(Property::GradientBuffers));
}

// P(2) takes the place of P(0), on which the last microbatch of batch 0 has yet to run backward.
TEST(BrokenLists, APredictionOverwritesNoWeightsInUse) {
  EXPECT_TRUE(
      Broken(predicted).move_before(0, Op::Predict, 2, Op::Backward, 3).breaks(Property::WeightBuffers));
}

TEST(BrokenLists, APartialSumOfReplicasLost) {
  Broken broken(replicated);
  broken.drop(0, Op::ReducePartial, 1);
  EXPECT_EQ(broken.finding(Property::Predictions), "stage 0: Predict batch 2 to P(2) before ReducePartial");
  EXPECT_TRUE(broken.finding(Property::Progress)
                  .starts_with("replica 0 stage 0 waits for ever at Predict batch 2 to P(2)"));
}

TEST(BrokenLists, APartialSumOfReplicasOfTheWrongGradients) {
  // Of batch 1 the middle stage takes two, and has three when it predicts.
  EXPECT_EQ(
      Broken(replicated).move_before(1, Op::ReducePartial, 1, Op::Backward, 5).finding(Property::Predictions),
      "stage 1: ReducePartial batch 1 has 1 gradients, 2 are due");
  EXPECT_EQ(
      Broken(replicated).move_after(1, Op::ReducePartial, 1, Op::Backward, 6).finding(Property::Predictions),
      "stage 1: ReducePartial batch 1 has 3 gradients, 2 are due");
}

TEST(BrokenLists, APartialSumThatNobodyWants) {
  EXPECT_EQ(Broken(replicated).repeat(1, Op::ReducePartial, 1).finding(Property::Predictions),
            "stage 1: ReducePartial batch 1 comes twice");
  Broken alone(predicted);
  alone.append(1, {.op = Op::ReducePartial, .batch = 0});
  EXPECT_EQ(alone.finding(Property::Predictions), "stage 1: ReducePartial batch 0 is not wanted");
  // No batch is predicted after the last.
  Broken last(replicated);
  last.append(1, {.op = Op::ReducePartial, .batch = 3}).move_after(1, Op::ReducePartial, 3, Op::Backward, 13);
  EXPECT_EQ(last.finding(Property::Predictions), "stage 1: ReducePartial batch 3 is not wanted");
}

TEST(BrokenLists, EvaluationsLostRepeatedOrOfOldWeights) {
  EXPECT_TRUE(Broken(two_bw).drop(2, Op::Evaluate, 3).breaks(Property::Evaluations));
  EXPECT_TRUE(Broken(two_bw).repeat(2, Op::Evaluate, 1).breaks(Property::Evaluations));
  EXPECT_TRUE(Broken(two_bw).move_after(2, Op::Evaluate, 1, Op::Step, 2).breaks(Property::Evaluations));

  Broken undue(two_bw);
  undue.at(2, Op::Evaluate, 1).batch = 0;
  EXPECT_TRUE(undue.breaks(Property::Evaluations));
}

TEST(BrokenLists, AnEvaluationOvertakenOnALinkBySomeMicrobatch) {
  Broken broken(two_bw);
  broken.move_after(0, Op::Evaluate, 1, Op::SendActivation, 12);
  EXPECT_TRUE(broken.breaks(Property::Links));
  EXPECT_TRUE(broken.keeps(Property::Progress));  // only an ordered transport would lock up
}

// A stage sends no more of an evaluation than the next takes, which here waits for a gradient of its own.
TEST(BrokenLists, AnEvaluationThatALaterStageDoesNotComeTo) {
  Broken broken(two_bw);
  broken.move_after(1, Op::Evaluate, 1, Op::RecvActivation, 13);
  EXPECT_TRUE(broken.breaks(Property::Progress));
}

TEST(BrokenLists, ReceivedInAnotherOrderThanSent) {
  Broken broken(flush);
  broken.move_before(2, Op::RecvActivation, 1, Op::RecvActivation, 0);
  EXPECT_TRUE(broken.breaks(Property::Links));
  EXPECT_TRUE(broken.keeps(Property::Dataflow));

  Broken gradients(two_bw);
  gradients.swap(0, Op::RecvGradient, 14, Op::RecvGradient, 15);
  EXPECT_TRUE(gradients.breaks(Property::Links));
}

TEST(BrokenLists, SentTwice) {
  EXPECT_TRUE(Broken(two_bw).repeat(0, Op::SendActivation, 3).breaks(Property::Links));
  EXPECT_TRUE(Broken(two_bw).repeat(1, Op::SendGradient, 3).breaks(Property::Links));
}

}  // namespace
}  // namespace twobw::schedule
