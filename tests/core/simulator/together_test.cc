// Shared resources of stages: channels, the reduction of gradients, the tie.
#include <gtest/gtest.h>

#include <vector>

#include "core/simulator/simulate.h"
#include "systems.h"

namespace twobw::simulator {
namespace {

using schedule::Event;
using schedule::Kind;
using schedule::Op;
using schedule::Spec;

std::vector<double> ends_of(const Result& result, int stage, Op op) {
  std::vector<double> ends;
  for (const Event& event : result.events) {
    if (event.stage == stage && event.instruction.op == op) ends.push_back(event.end);
  }
  return ends;
}

using Times = std::vector<double>;

TEST(Channel, BytesQueueButLatencyDoesNot) {
  const Spec spec = {.shape = {.schedule = Kind::GPipe, .stages = 2, .microbatches = 2}};
  System slow = equal_stages(2), far = equal_stages(2);
  add_links(slow, {.latency = 0, .bandwidth = 1}, 3);
  add_links(far, {.latency = 3, .bandwidth = kFree}, 3);
  // Sent at 1 and 2.
  EXPECT_EQ(ends_of(simulate(spec, slow, true), 1, Op::RecvActivation), (Times{4, 7}));
  EXPECT_EQ(ends_of(simulate(spec, far, true), 1, Op::RecvActivation), (Times{4, 5}));
}

TEST(Channel, ASharedOneServesRequestsInOrder) {
  const Spec spec = {.shape = {.schedule = Kind::GPipe, .stages = 3, .microbatches = 2}};
  System system = equal_stages(3);
  add_shared_link(system, {.latency = 0, .bandwidth = 1}, 2);
  const Result result = simulate(spec, system, true);
  // 0 -> 1 uses the channel in [1,3] and [3,5]. Stage 1 sends the first microbatch at 4, in [5,7].
  EXPECT_EQ(ends_of(result, 1, Op::RecvActivation), (Times{3, 5}));
  EXPECT_EQ(ends_of(result, 2, Op::RecvActivation), (Times{7, 9}));
}

TEST(Channel, ASharedOneCanSetThePace) {
  // Four transfers of 2 s per microbatch over one channel: 8 s; the compute takes 3.
  System system = equal_stages(3);
  add_shared_link(system, {.latency = 0, .bandwidth = 1}, 2);
  const Spec spec = {.shape = {.schedule = Kind::TwoBW, .stages = 3, .microbatches = 6}};
  EXPECT_EQ(simulate(spec, system).update_seconds, 8 * 6);
}

// Without replicas stage 0 steps as soon as it has its gradients. Stage r has them r backwards earlier, which
// hide its all-reduce.
TEST(Reduce, IsHiddenBehindTheBackwardsThatFollow) {
  const Spec spec = {.shape = {.schedule = Kind::TwoBW, .stages = 4, .microbatches = 8}};
  for (int r = 0; r < 4; ++r) {
    System system = equal_stages(4);
    system.stages[r].reduce = 2 * r;
    EXPECT_EQ(simulate(spec, system).update_seconds, 24);
    system.stages[r].reduce += 1;
    const Result result = simulate(spec, system);
    EXPECT_EQ(result.update_seconds, 25);
    EXPECT_EQ(result.stages[0].wait_reduce, 1);
  }
}

// With replicas stage 0 also steps as late as possible: m-d+1 microbatches after its last backward.
TEST(Reduce, IsHiddenBehindTheNextBatch) {
  Spec spec = {
      .shape = {.schedule = Kind::TwoBW, .stages = 4, .replicas = 2, .microbatches = 8, .predict = false}};
  System system = equal_stages(4);
  for (StageTimes& stage : system.stages) stage.reduce = (8 - 4 + 1) * 3;
  EXPECT_EQ(simulate(spec, system).update_seconds, 24);
  for (StageTimes& stage : system.stages) stage.reduce += 1;
  EXPECT_EQ(simulate(spec, system).update_seconds, 25);
}

// One microbatch hides the partial sum.
TEST(Reduce, OfPartialSumsIsHiddenBehindOneMicrobatch) {
  const Spec spec = {.shape = {.schedule = Kind::TwoBW, .stages = 4, .replicas = 2, .microbatches = 8}};
  System system = equal_stages(4);
  for (StageTimes& stage : system.stages) stage.reduce = 3;
  EXPECT_EQ(simulate(spec, system).update_seconds, 24);
  for (StageTimes& stage : system.stages) stage.reduce = 4;
  const Result result = simulate(spec, system);
  EXPECT_GT(result.update_seconds, 24);
  for (const StageUse& stage : result.stages) EXPECT_GT(stage.wait_reduce, 0);
}

TEST(Reduce, OfPartialSumsDelaysAStageByTheRest) {
  const Spec spec = {
      .shape = {.schedule = Kind::TwoBW, .stages = 1, .replicas = 2, .microbatches = 4, .step_slack = 4}};
  System system = equal_stages(1);
  system.stages[0].reduce = 5;
  const Result result = simulate(spec, system);
  EXPECT_EQ(result.update_seconds, 3 * 4 + 5 - 3);
  EXPECT_EQ(result.stages[0].wait_reduce, 5 - 3);
}

// Microbatches on W(j) wait for the part of the sum that the slack does not hide.
TEST(Reduce, DelaysTheMicrobatchesOnTrueWeightsBeyondTheirSlack) {
  Spec spec = {
      .shape = {.schedule = Kind::TwoBW, .stages = 1, .replicas = 2, .microbatches = 4, .step_slack = 1}};
  System system = equal_stages(1);
  system.stages[0].reduce = 5;
  EXPECT_EQ(simulate(spec, system).update_seconds, 3 * 4 + (5 - 3) + (5 - 3));
  spec.shape.step_slack = 2;
  EXPECT_EQ(simulate(spec, system).update_seconds, 3 * 4 + (5 - 3));
}

// With a single gradient the prediction waits for the whole sum, and the sum of the batch for that one.
TEST(Reduce, OfOneGradientIsNotHidden) {
  const Spec spec = {.shape = {.schedule = Kind::TwoBW, .stages = 1, .replicas = 2, .microbatches = 1}};
  System system = equal_stages(1);
  system.stages[0].reduce = 1;
  EXPECT_EQ(simulate(spec, system).update_seconds, 3 + 1);
  system.stages[0].reduce = 5;
  EXPECT_EQ(simulate(spec, system).update_seconds, 5 + 5);
}

TEST(Reduce, IsPartOfTheFlush) {
  const Spec spec = {.shape = {.schedule = Kind::Flush, .stages = 4, .microbatches = 8}};
  System system = equal_stages(4);
  for (StageTimes& stage : system.stages) stage.reduce = 5;
  EXPECT_EQ(simulate(spec, system).update_seconds, 3 * (8 + 3) + 5);
  system.agree = 2;
  EXPECT_EQ(simulate(spec, system).update_seconds, 3 * (8 + 3) + 5 + 2);
}

TEST(Tie, TheFirstWaitsForTheLastAndTheLastForTheFirst) {
  const Spec spec = {.shape = {.schedule = Kind::Flush, .stages = 2, .microbatches = 1}};
  System system = equal_stages(2);
  system.channels.assign(2, {.latency = 1, .bandwidth = 1});
  system.tie_bytes = 6;
  system.tie_forward_channel = 0;
  system.tie_backward_channel = 1;
  const Result result = simulate(spec, system, true);
  // The last ends its backward at 4: its part passes in [4,10]. The first ends at 6: in [6,12].
  EXPECT_EQ(ends_of(result, 0, Op::Step), (Times{11}));
  EXPECT_EQ(ends_of(result, 1, Op::Step), (Times{13}));
}

TEST(Tie, IsHiddenWhereTheFirstStageStepsLate) {
  Spec spec = {.shape = {.schedule = Kind::TwoBW, .stages = 2, .microbatches = 8, .step_slack = 3}};
  System system = equal_stages(2);
  system.channels.assign(2, {.latency = 0, .bandwidth = 1});
  system.tie_bytes = 9;
  system.tie_forward_channel = 0;
  system.tie_backward_channel = 1;
  // The last stage's part comes 9 s after its last backward, and the first stage's own is 2 s after that.
  EXPECT_EQ(simulate(spec, system).update_seconds, 8 * 3 + 7);
  spec.shape.defer_tied_update = true;
  EXPECT_EQ(simulate(spec, system).update_seconds, 8 * 3);
  EXPECT_EQ(simulate(spec, system).stages[0].wait_reduce, 0);
  system.tie_bytes = 200;  // which nothing hides
  EXPECT_GT(simulate(spec, system).update_seconds, 200 / 2);
}

TEST(Tie, LetsOthersPassOnASharedChannel) {
  const Spec spec = {.shape = {.schedule = Kind::TwoBW, .stages = 2, .microbatches = 16, .step_slack = 16}};
  System system = equal_stages(2, 1.0625, 2);
  add_links(system, {.latency = 0, .bandwidth = 8}, 1);
  system.tie_bytes = 64;  // 8 s of the channel
  const double apart = simulate(spec, system).update_seconds;
  EXPECT_EQ(apart, 16 * (3.0625 + 1.0 / 8));
  system.tie_forward_channel = 0;
  const double together = simulate(spec, system).update_seconds;
  EXPECT_GT(together, apart);
  EXPECT_LT(together, apart + 1);
}

}  // namespace
}  // namespace twobw::simulator
