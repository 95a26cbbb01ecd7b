#include "core/simulator/timeline.h"

#include <gtest/gtest.h>

#include "systems.h"

namespace twobw::simulator {
namespace {

using schedule::Kind;

TEST(Timeline, DrawsWhatEveryStageDoes) {
  const schedule::Spec spec = {.shape = {.schedule = Kind::TwoBW, .stages = 2, .microbatches = 2},
                               .updates = 2};
  System system = equal_stages(2, 1, 2);
  system.stages[0].step = system.stages[1].step = 0.5;
  const Result result = simulate(spec, system, true);
  EXPECT_EQ(draw_timeline(result.events, 2, {.seconds = 10, .columns = 29}),
            "stage 0  0-1-....0'--2-1'--|-\n"
            "stage 1  ..0-0'--1-1'--2-2'--\n");
}

TEST(Timeline, LeavesOutLabelsThatDoNotFit) {
  const schedule::Spec spec = {.shape = {.schedule = Kind::Flush, .stages = 1, .microbatches = 2}};
  const Result result = simulate(spec, equal_stages(1, 2, 2), true);
  EXPECT_EQ(draw_timeline(result.events, 1, {.seconds = 8, .columns = 13}), "stage 0  ---|\n");
  EXPECT_EQ(draw_timeline(result.events, 1, {.seconds = 8, .columns = 17}), "stage 0  0---1--|\n");
}

}  // namespace
}  // namespace twobw::simulator
