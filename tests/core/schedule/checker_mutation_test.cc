// Broken lists, each with the property that must be reported.
#include <gtest/gtest.h>

#include "broken.h"

namespace twobw::schedule {
namespace {

using enum Op;
using P = Property;

const Spec paper = {.shape = {.schedule = Kind::TwoBW, .stages = 3, .microbatches = 4, .predict = false},
                    .updates = 4,
                    .evaluate_every = 2};
const Spec predicted = {
    .shape = {.schedule = Kind::TwoBW, .stages = 3, .microbatches = 4}, .updates = 4, .evaluate_every = 2};
const Spec replicated = {.shape = {.schedule = Kind::TwoBW, .stages = 3, .replicas = 2, .microbatches = 4},
                         .updates = 4};
const Spec flush = {.shape = {.schedule = Kind::Flush, .stages = 3, .microbatches = 4}, .updates = 3};
const Spec with_saves = {
    .shape = {.schedule = Kind::TwoBW, .stages = 3, .microbatches = 4}, .updates = 5, .save_every = 2};

Spec with_one_buffer(Spec spec) {
  spec.shape.double_buffer_gradients = false;
  return spec;
}

TEST(BrokenLists, AreCompleteBeforeTheyAreBroken) {
  for (const Spec& spec : {paper, predicted, replicated, flush, with_saves, with_one_buffer(paper)})
    EXPECT_EQ(check(spec).problem(), "");
}

TEST(BrokenLists, Shape) {
  Broken beyond(paper), batch(paper), version(paper);
  beyond.at(1, Forward, 15).microbatch = 16;
  EXPECT_TRUE(beyond.breaks(P::Shape));
  batch.at(1, Forward, 5).batch = 0;
  EXPECT_TRUE(batch.breaks(P::Shape));
  version.at(1, Backward, 5).version = -1;
  EXPECT_TRUE(version.breaks(P::Shape));
  EXPECT_TRUE(Broken(paper).append(2, {.op = SendActivation, .microbatch = 0}).breaks(P::Shape));
  EXPECT_FALSE(check(paper, Lists(2)).holds(P::Shape));
}

TEST(BrokenLists, Progress) {
  EXPECT_TRUE(Broken(paper).drop(0, SendActivation, 6).breaks(P::Progress));
  EXPECT_TRUE(Broken(paper).drop(2, SendGradient, 6).breaks(P::Progress));
  EXPECT_TRUE(Broken(paper).drop(1, ReduceGradients, 2).breaks(P::Progress));
  // Stage 0 waits for a gradient before it sends the activation that the gradient comes from.
  EXPECT_TRUE(Broken(paper).move_after(0, SendActivation, 0, RecvGradient, 0).breaks(P::Progress));
  // The last stage updates batch 1 before it sends the gradient that stage 0 needs to end batch 1.
  EXPECT_TRUE(Broken(flush).move_before(2, Step, 1, SendGradient, 7).breaks(P::Progress));
  // A stage sends no more of an evaluation than the next receives, which here waits for a gradient.
  EXPECT_TRUE(Broken(paper).move_after(1, Evaluate, 1, RecvActivation, 13).breaks(P::Progress));
}

TEST(BrokenLists, Dataflow) {
  EXPECT_TRUE(Broken(paper).swap(1, Forward, 5, SendActivation, 5).breaks(P::Dataflow));
  EXPECT_TRUE(Broken(paper).swap(1, RecvActivation, 5, Forward, 5).breaks(P::Dataflow));
  EXPECT_TRUE(Broken(paper).swap(1, Backward, 5, RecvGradient, 5).breaks(P::Dataflow));
  EXPECT_TRUE(Broken(paper).swap(1, Backward, 5, SendGradient, 5).breaks(P::Dataflow));
  EXPECT_TRUE(Broken(paper).swap(0, ReduceGradients, 1, Step, 1).breaks(P::Dataflow));
  EXPECT_TRUE(Broken(paper).swap(2, Forward, 5, Backward, 5).breaks(P::Dataflow));
  EXPECT_TRUE(Broken(paper).move_before(1, ReduceGradients, 1, Backward, 7).breaks(P::Dataflow));
  EXPECT_TRUE(Broken(paper).swap(0, BeginBatch, 1, Forward, 4).breaks(P::Dataflow));
}

TEST(BrokenLists, Once) {
  EXPECT_TRUE(Broken(paper).repeat(1, Forward, 5).breaks(P::Once));
  EXPECT_TRUE(Broken(paper).drop(1, Backward, 15).breaks(P::Once));
  EXPECT_TRUE(Broken(paper).swap(0, Forward, 5, Forward, 6).breaks(P::Once));
  EXPECT_TRUE(Broken(paper).swap(2, Backward, 5, Backward, 6).breaks(P::Once));
}

TEST(BrokenLists, Versions) {
  Broken one(paper), all(paper), backward(paper);
  one.set_version(1, 9, 2);
  EXPECT_TRUE(one.breaks(P::VersionRule));
  EXPECT_TRUE(one.breaks(P::Agreement));
  for (std::size_t stage = 0; stage < 3; ++stage) all.set_version(stage, 9, 0);
  EXPECT_TRUE(all.breaks(P::VersionRule));
  EXPECT_FALSE(all.breaks(P::Agreement));
  backward.at(1, Backward, 9).version = 2;
  EXPECT_TRUE(backward.breaks(P::VersionRule));

  Broken stash({.shape = {.schedule = Kind::Stash, .stages = 3, .microbatches = 2}, .updates = 4});
  const std::int64_t newest = stash.at(1, Forward, 5).version;
  ASSERT_GT(newest, 0);
  EXPECT_TRUE(stash.set_version(1, 5, newest - 1).breaks(P::VersionRule));
}

TEST(BrokenLists, Slots) {
  EXPECT_TRUE(Broken(paper).move_before(0, Forward, 6, Backward, 3).breaks(P::InFlight));
  Broken taken(paper), other(paper);
  EXPECT_TRUE(taken.set_slot(0, 6, taken.at(0, Forward, 5).slot).breaks(P::Slots));
  EXPECT_TRUE(Broken(paper).set_slot(0, 6, 3).breaks(P::Slots));
  other.at(0, Backward, 6).slot = other.at(0, Backward, 7).slot;
  EXPECT_TRUE(other.breaks(P::Slots));
}

TEST(BrokenLists, WeightAndGradientBuffers) {
  // W(2) overwrites W(0), on which the last microbatch of batch 1 has yet to run backward.
  EXPECT_TRUE(Broken(paper).move_before(0, Step, 1, Backward, 7).breaks(P::WeightBuffers));
  EXPECT_TRUE(Broken(flush).move_before(1, Step, 0, Backward, 3).breaks(P::WeightBuffers));
  EXPECT_TRUE(Broken(paper).move_after(1, Step, 0, Forward, 8).breaks(P::WeightBuffers));  // nothing to read
  EXPECT_TRUE(Broken(paper).move_after(1, Step, 0, Backward, 8).breaks(P::GradientBuffers));
  EXPECT_TRUE(Broken(flush).move_after(1, Step, 0, Backward, 4).breaks(P::GradientBuffers));
  EXPECT_TRUE(Broken(flush).move_before(1, Step, 1, Backward, 4).breaks(P::GradientBuffers));  // no gradient
  const Spec one = with_one_buffer(paper);
  EXPECT_TRUE(Broken(one).move_after(1, Step, 1, Backward, 8).breaks(P::GradientBuffers));
  EXPECT_TRUE(Broken(one).move_before(1, Step, 1, Backward, 7).breaks(P::WeightBuffers));
  Spec two = paper;
  two.shape.replicas = 2;
  EXPECT_TRUE(Broken(two).move_before(0, Step, 1, Backward, 7).breaks(P::WeightBuffers));
  EXPECT_TRUE(Broken(two).move_after(0, Step, 0, Forward, 8).breaks(P::WeightBuffers));
  EXPECT_TRUE(Broken(two).move_after(0, Step, 0, Backward, 8).breaks(P::GradientBuffers));
  EXPECT_TRUE(Broken(two).move_before(0, Step, 1, ReduceGradients, 1).breaks(P::Progress));
}

TEST(BrokenLists, Updates) {
  EXPECT_TRUE(Broken(paper).drop(1, Step, 3).breaks(P::Updates));
  EXPECT_TRUE(Broken(paper).repeat(1, Step, 2).breaks(P::Updates));
  EXPECT_TRUE(Broken(paper).swap(1, Step, 2, Step, 3).breaks(P::Updates));
  EXPECT_TRUE(Broken(paper).repeat(1, ReduceGradients, 2).breaks(P::Updates));
  Broken version(paper);
  version.at(1, Step, 2).version = 2;
  EXPECT_TRUE(version.breaks(P::Updates));
}

TEST(BrokenLists, Predictions) {
  // Stage 0 has two gradients of batch 1 when it predicts P(2).
  EXPECT_EQ(Broken(predicted).move_before(0, Predict, 2, Backward, 5).finding(P::Predictions),
            "stage 0: Predict batch 2 to P(2) has 1 gradients, 2 are due");
  Broken late(predicted), early(predicted), version(predicted);
  late.move_after(0, Forward, 8, Backward, 6).move_after(0, Predict, 2, Backward, 6);
  EXPECT_EQ(late.finding(P::Predictions), "stage 0: Predict batch 2 to P(2) has 3 gradients, 2 are due");
  early.move_after(0, Predict, 2, Forward, 8);
  EXPECT_EQ(early.finding(P::Predictions),
            "stage 0: Forward microbatch 8 (batch 2) on P(2) comes before Predict");
  EXPECT_TRUE(early.breaks(P::WeightBuffers));
  version.at(1, Predict, 2).version = 1;
  EXPECT_EQ(version.finding(P::Predictions), "stage 1: Predict batch 2 to P(1) must write P(2)");
  // P(1) is made from W(0); the last stage has all gradients and could step first.
  Broken stepped(predicted);
  stepped.move_before(2, Step, 0, Predict, 1);
  EXPECT_EQ(stepped.finding(P::Predictions), "stage 2: Predict batch 1 to P(1) when 1 updates are made");
  EXPECT_EQ(stepped.finding(P::GradientBuffers),
            "stage 2: Predict batch 1 to P(1) finds no gradient of batch 0");
  EXPECT_EQ(Broken(predicted).move_after(2, Step, 0, Predict, 2).finding(P::Predictions),
            "stage 2: Predict batch 2 to P(2) when 0 updates are made");
  EXPECT_EQ(Broken(predicted).drop(1, Predict, 3).finding(P::Predictions),
            "stage 1: Forward microbatch 12 (batch 3) on P(3) comes before Predict");
  EXPECT_EQ(Broken(predicted).repeat(1, Predict, 3).finding(P::Predictions),
            "stage 1: Predict batch 3 to P(3) is not the next to be predicted");
  EXPECT_TRUE(Broken(predicted).swap(1, Predict, 2, Predict, 3).breaks(P::Predictions));
  // P(2) overwrites P(0), on which the last microbatch of batch 0 has yet to run backward.
  EXPECT_TRUE(Broken(predicted).move_before(0, Predict, 2, Backward, 3).breaks(P::WeightBuffers));
  EXPECT_TRUE(Broken(predicted).move_after(1, Step, 0, Backward, 8).breaks(P::GradientBuffers));
  EXPECT_TRUE(
      Broken(with_one_buffer(predicted)).move_after(1, Step, 1, Backward, 8).breaks(P::GradientBuffers));
}

// A P(j) and a W(j) have the same number.
TEST(BrokenLists, TrueWeightsInPlaceOfPredictedOnes) {
  Broken forward(predicted), backward(predicted);
  forward.at(1, Forward, 9).predicted = false;
  EXPECT_EQ(forward.finding(P::VersionRule),
            "stage 1: Forward microbatch 9 (batch 2) on W(2) must be on predicted weights");
  backward.at(1, Backward, 1).predicted = true;
  EXPECT_EQ(backward.finding(P::VersionRule),
            "stage 1: Backward microbatch 1 (batch 0) on P(0) must be on true weights");
}

TEST(BrokenLists, APredictionThatIsNotDue) {
  const Instruction first = {.op = Predict, .batch = 1, .version = 1, .predicted = true};
  EXPECT_TRUE(Broken(paper).append(1, first).breaks(P::Predictions));
  EXPECT_TRUE(Broken(flush).append(1, first).breaks(P::Predictions));
  Spec spec = predicted;
  spec.sync_updates = 2;
  const Instruction second = {.op = Predict, .batch = 2, .version = 2, .predicted = true};
  EXPECT_TRUE(Broken(spec).append(1, second).breaks(P::Predictions));
}

TEST(BrokenLists, PartialSumsOfReplicas) {
  Broken lost(replicated), last(replicated);
  lost.drop(0, ReducePartial, 1);
  EXPECT_EQ(lost.finding(P::Predictions), "stage 0: Predict batch 2 to P(2) before ReducePartial");
  EXPECT_TRUE(
      lost.finding(P::Progress).starts_with("replica 0 stage 0 waits forever at Predict batch 2 to P(2)"));
  // The middle stage sums two gradients of batch 1, and has three when it predicts.
  EXPECT_EQ(Broken(replicated).move_before(1, ReducePartial, 1, Backward, 5).finding(P::Predictions),
            "stage 1: ReducePartial batch 1 has 1 gradients, 2 are due");
  EXPECT_EQ(Broken(replicated).move_after(1, ReducePartial, 1, Backward, 6).finding(P::Predictions),
            "stage 1: ReducePartial batch 1 has 3 gradients, 2 are due");
  EXPECT_EQ(Broken(replicated).repeat(1, ReducePartial, 1).finding(P::Predictions),
            "stage 1: ReducePartial batch 1 comes twice");
  EXPECT_EQ(Broken(predicted).append(1, {.op = ReducePartial}).finding(P::Predictions),
            "stage 1: ReducePartial batch 0 is not wanted");
  // No batch is predicted after the last.
  last.append(1, {.op = ReducePartial, .batch = 3}).move_after(1, ReducePartial, 3, Backward, 13);
  EXPECT_EQ(last.finding(P::Predictions), "stage 1: ReducePartial batch 3 is not wanted");
}

TEST(BrokenLists, EvaluationsAndSaves) {
  EXPECT_TRUE(Broken(paper).drop(2, Evaluate, 3).breaks(P::Evaluations));
  EXPECT_TRUE(Broken(paper).repeat(2, Evaluate, 1).breaks(P::Evaluations));
  EXPECT_TRUE(Broken(paper).move_after(2, Evaluate, 1, Step, 2).breaks(P::Evaluations));
  Broken undue(paper);
  undue.at(2, Evaluate, 1).batch = 0;
  EXPECT_TRUE(undue.breaks(P::Evaluations));
  EXPECT_TRUE(Broken(with_saves).drop(1, Save, 1).breaks(P::Saves));
  EXPECT_TRUE(Broken(with_saves).repeat(1, Save, 1).breaks(P::Saves));
  EXPECT_TRUE(Broken(with_saves).drop(1, SaveCompute, 1).breaks(P::Saves));
  EXPECT_TRUE(Broken(with_saves).move_after(1, Save, 1, Step, 2).breaks(P::Saves));
  EXPECT_TRUE(Broken(with_saves).move_before(1, Save, 1, Step, 1).breaks(P::Dataflow));
  // Before the prediction is made there is nothing to copy.
  EXPECT_TRUE(Broken(with_saves).move_before(1, SaveCompute, 1, Predict, 2).breaks(P::WeightBuffers));
}

TEST(BrokenLists, OrderOnLinks) {
  Broken overtaken(paper), swapped(flush);
  overtaken.move_after(0, Evaluate, 1, SendActivation, 12);
  EXPECT_TRUE(overtaken.breaks(P::Links));
  EXPECT_FALSE(overtaken.breaks(P::Progress));  // only an ordered transport would deadlock
  swapped.move_before(2, RecvActivation, 1, RecvActivation, 0);
  EXPECT_TRUE(swapped.breaks(P::Links));
  EXPECT_FALSE(swapped.breaks(P::Dataflow));
  EXPECT_TRUE(Broken(paper).swap(0, RecvGradient, 14, RecvGradient, 15).breaks(P::Links));
  EXPECT_TRUE(Broken(paper).repeat(0, SendActivation, 3).breaks(P::Links));
  EXPECT_TRUE(Broken(paper).repeat(1, SendGradient, 3).breaks(P::Links));
}

}  // namespace
}  // namespace twobw::schedule
