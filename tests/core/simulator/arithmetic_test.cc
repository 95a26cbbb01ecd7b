// The simulator against results by hand. Times are whole numbers or halves, so equality is exact.
#include <gtest/gtest.h>

#include <cmath>

#include "../schedule/specs.h"
#include "core/simulator/simulate.h"
#include "systems.h"

namespace twobw::simulator {
namespace {

using schedule::Kind;
using schedule::Spec;

double update_seconds(Kind kind, int d, int m, const System& system) {
  return simulate({.shape = {.schedule = kind, .stages = d, .microbatches = m}}, system).update_seconds;
}

TEST(Arithmetic, TwoBWIsFasterThanFlushByTheBubbleAndNeverIdle) {
  for (bool predict : {true, false}) {
    for (int d = 1; d <= 9; ++d) {
      for (int m = predict ? d : std::max(1, d - 1); m <= 20; ++m) {
        const System system = equal_stages(d, 1, 2);
        const Spec spec = {
            .shape = {.schedule = Kind::TwoBW, .stages = d, .microbatches = m, .predict = predict}};
        const Result two_bw = simulate(spec, system);
        EXPECT_EQ(two_bw.update_seconds, 3 * m) << schedule::text(spec);
        EXPECT_EQ(update_seconds(Kind::Flush, d, m, system), 3 * (m + d - 1)) << schedule::text(spec);
        for (const StageUse& stage : two_bw.stages) EXPECT_EQ(stage.utilisation, 1.0);
      }
    }
  }
}

// All stages wait for the backwards of the stages before the last one; a forward of it hides a part.
TEST(Arithmetic, OneGradientBufferCostsAStallThatTwoDoNot) {
  for (bool predict : {true, false}) {
    for (int d = 2; d <= 9; ++d) {
      for (int m = predict ? d : d - 1; m <= 20; ++m) {
        const System system = equal_stages(d, 1, 2);
        Spec spec = {.shape = {.schedule = Kind::TwoBW,
                               .stages = d,
                               .microbatches = m,
                               .double_buffer_gradients = false,
                               .predict = predict}};
        const Result result = simulate(spec, system);
        const double stall = 2 * (d - 1) - 1;
        EXPECT_EQ(result.update_seconds, 3 * m + stall) << schedule::text(spec);
        EXPECT_EQ(result.stages.back().wait_reduce, stall);
        EXPECT_LT(result.update_seconds, update_seconds(Kind::Flush, d, m, system));
        spec.shape.double_buffer_gradients = true;
        EXPECT_GT(result.update_seconds, simulate(spec, system).update_seconds);
      }
    }
  }
}

// Only the sum over replicas can stall a single stage; a forward hides a part of it.
TEST(Arithmetic, OneGradientBufferHidesAForwardOfTheSumOverReplicas) {
  System system = equal_stages(1, 3, 2);
  system.stages[0].step = 1;
  for (double reduce : {0, 2, 3, 7}) {
    system.stages[0].reduce = reduce;
    const Spec one = {.shape = {.schedule = Kind::TwoBW,
                                .stages = 1,
                                .replicas = 2,
                                .microbatches = 4,
                                .double_buffer_gradients = false,
                                .predict = false}};
    EXPECT_EQ(simulate(one, system).update_seconds, 4 * 5 + 1 + std::max(0.0, reduce - 3));
  }
}

TEST(Arithmetic, TheSlowestStageSetsThePace) {
  System system = equal_stages(4);
  system.stages[2] = {.forward = 2, .backward = 3};
  const Result result =
      simulate({.shape = {.schedule = Kind::TwoBW, .stages = 4, .microbatches = 8}}, system);
  EXPECT_EQ(result.update_seconds, 8 * 5);
  EXPECT_EQ(result.stages[2].utilisation, 1.0);
  EXPECT_EQ(result.stages[0].utilisation, 3.0 / 5);
}

TEST(Arithmetic, EverySecondOfAnUpdateHasACause) {
  System system = equal_stages(4);
  add_links(system, {.latency = 0.5, .bandwidth = 4}, 2);
  for (StageTimes& stage : system.stages) stage.step = 2, stage.working_overhead = 0.25;
  for (Kind kind : schedule::all_kinds()) {
    const Result result = simulate({.shape = {.schedule = kind, .stages = 4, .microbatches = 8}}, system);
    for (const StageUse& use : result.stages) {
      const double waits = use.wait_activation + use.wait_gradient + use.wait_reduce + use.wait_other;
      const double busy = use.forward + use.backward + use.step + use.handing_over;
      EXPECT_EQ(use.forward, 8);
      EXPECT_EQ(use.backward, 16);
      EXPECT_EQ(use.step, 2);
      EXPECT_DOUBLE_EQ(busy + waits, result.update_seconds) << schedule::name(kind);
      EXPECT_DOUBLE_EQ(use.utilisation, busy / result.update_seconds);
    }
  }
}

// d microbatches are in flight; each takes d (F+B) + 2 (d-1) c.
TEST(Arithmetic, StrictOneForwardOneBackwardPaysForTransfers) {
  for (int d = 2; d <= 8; ++d) {
    for (double c : {0.5, 1.0, 4.0}) {
      const int m = 2 * d;
      System late = equal_stages(d), slow = equal_stages(d);
      add_links(late, {.latency = c, .bandwidth = kFree}, 1);
      add_links(slow, {.latency = 0, .bandwidth = 8}, 8 * c);
      const double expected = m / d * (3 * d + 2 * (d - 1) * c);
      EXPECT_EQ(update_seconds(Kind::TwoBW, d, m, late), expected) << "d=" << d << " c=" << c;
      EXPECT_EQ(update_seconds(Kind::TwoBW, d, m, slow), expected) << "d=" << d << " c=" << c;
    }
  }
}

// n_r - n_s + 1 microbatches pass while one goes from stage r to s and back: each boundary needs a step of
// 1 + 2 c / (F+B), in whole microbatches.
TEST(Arithmetic, EnoughExtraMicrobatchesHideTransfers) {
  for (int d = 2; d <= 8; ++d) {
    for (double c : {0.5, 1.0, 1.5, 2.0, 4.0}) {
      const int enough = (d - 1) * static_cast<int>(std::ceil(2 * c / 3));
      System system = equal_stages(d);
      add_links(system, {.latency = c, .bandwidth = kFree}, 1);
      Spec spec = {.shape = {.schedule = Kind::TwoBW,
                             .stages = d,
                             .microbatches = d - 1 + enough,
                             .extra = enough,
                             .predict = false}};
      EXPECT_EQ(simulate(spec, system).update_seconds, 3 * spec.shape.microbatches)
          << "d=" << d << " c=" << c;
      spec.shape.extra -= 1;
      EXPECT_GT(simulate(spec, system).update_seconds, 3 * spec.shape.microbatches)
          << "d=" << d << " c=" << c;
    }
  }
}

// A flush pays for a transfer once on the way there and once on the way back.
TEST(Arithmetic, GPipeHidesTransfersButForTheFirstAndLast) {
  System system = equal_stages(4);
  add_links(system, {.latency = 2, .bandwidth = kFree}, 1);
  EXPECT_EQ(update_seconds(Kind::GPipe, 4, 8, system), 3 * (8 + 3) + 2 * 3 * 2);
}

TEST(Arithmetic, APredictionIsOnTheComputeThread) {
  for (int r = 0; r < 3; ++r) {
    System system = equal_stages(3);
    system.stages[r].step = 4;
    system.stages[r].predict = 2;
    Spec spec = {.shape = {.schedule = Kind::TwoBW, .stages = 3, .microbatches = 6}};
    const Result result = simulate(spec, system);
    EXPECT_EQ(result.update_seconds, 3 * 6 + 4 + 2) << "stage " << r;
    EXPECT_EQ(result.stages[r].step, 4 + 2);
    spec.shape.predict = false;
    EXPECT_EQ(simulate(spec, system).update_seconds, 3 * 6 + 4) << "stage " << r;
  }
}

constexpr Channel kInside = {.latency = 1, .bandwidth = 16};
constexpr Channel kBetween = {.latency = 4, .bandwidth = 2};

TEST(AllReduce, ARingSendsEachShareAroundTwice) {
  EXPECT_EQ(ring_all_reduce(64, 1, kInside), 0);
  EXPECT_EQ(ring_all_reduce(64, 2, kInside), 2 * (1 + 32.0 / 16));
  EXPECT_EQ(ring_all_reduce(64, 4, kInside), 6 * (1 + 16.0 / 16));
}

TEST(AllReduce, AHierarchyOfOneLevelIsARing) {
  EXPECT_EQ(hierarchical_all_reduce(64, 1, 4, kInside, kBetween), ring_all_reduce(64, 4, kInside));
  EXPECT_EQ(hierarchical_all_reduce(64, 4, 1, kInside, kBetween), ring_all_reduce(64, 4, kBetween));
}

TEST(AllReduce, AHierarchySendsBetweenNodesWhatOneNodeHolds) {
  EXPECT_EQ(hierarchical_all_reduce(64, 2, 4, kInside, kBetween), 6 * (1 + 1.0) + 2 * (4 + 16.0));
}

}  // namespace
}  // namespace twobw::simulator
