#include "core/schedule/execution.h"

#include <gtest/gtest.h>

#include "specs.h"

namespace twobw::schedule {
namespace {

// Times of the updates, by worker.
std::vector<std::vector<std::int64_t>> steps(const Spec& spec) {
  const Lists lists = of_all_replicas(spec, all_instructions(spec));
  const Execution execution = execute(lists, {}, spec.shape.replicas);
  std::vector<std::vector<std::int64_t>> ends(lists.size());
  for (std::size_t r = 0; r < lists.size(); ++r) {
    for (std::size_t i = 0; i < lists[r].size(); ++i)
      if (lists[r][i].op == Op::Step) ends[r].push_back(execution.times[r][i].end);
  }
  return ends;
}

void expect_steady(const Spec& spec) {
  if (spec.shape.microbatches < smallest_microbatches(spec)) return;
  const auto [first, last] = steady_state(spec, spec.updates).value();
  for (const auto& ends : steps(spec)) {
    EXPECT_EQ(static_cast<double>(ends[last] - ends[first]),
              static_cast<double>(last - first) * steady_ticks_per_batch(spec))
        << text(spec);
  }
}

TEST(Execution, EveryWorkerKeepsTimeBetweenTheUpdatesOfTheSteadyState) {
  for (const Kind kind : all_kinds()) {
    for (const int w : {1, 2}) {
      for (const int d : {1, 2, 3, 5}) {
        for (const int e : {0, 1, 4}) {
          for (const int m : {1, 2, 4, 9}) {
            for (const int sync : {0, 2}) {
              Spec spec = {
                  .shape = {.schedule = kind, .stages = d, .replicas = w, .microbatches = m, .extra = e},
                  .updates = 9,
                  .sync_updates = sync};
              expect_steady(spec);
              spec.shape.predict = false;
              expect_steady(spec);
            }
          }
        }
      }
    }
  }
}

// Stages that step late make the next update while the pipeline drains.
TEST(Execution, TheSteadyStateEndsNoLaterThanItMust) {
  const Spec spec = {.shape = {.schedule = Kind::TwoBW, .stages = 3, .microbatches = 4}, .updates = 9};
  const auto last = steady_state(spec, spec.updates).value().last;
  const auto ends = steps(spec)[1];
  EXPECT_GT(static_cast<double>(ends[last + 1] - ends[last]), steady_ticks_per_batch(spec));
}

TEST(Execution, AShortRunHasNoSteadyState) {
  EXPECT_FALSE(steady_state({.shape = {.schedule = Kind::TwoBW}}, 4));
  EXPECT_TRUE(steady_state({.shape = {.schedule = Kind::TwoBW}}, 5));
  EXPECT_FALSE(steady_state({.shape = {.schedule = Kind::TwoBW}, .sync_updates = 3}, 7));
}

TEST(Execution, ADeadlockNamesWhoWaitsForWhat) {
  Lists lists = all_instructions({.shape = {.schedule = Kind::Sequential, .stages = 2, .microbatches = 1}});
  std::erase_if(lists[0], [](const Instruction& i) { return i.op == Op::SendActivation; });
  EXPECT_EQ(execute(lists).deadlock,
            "stage 0 waits forever at RecvGradient microbatch 0 (batch 0); "
            "stage 1 waits forever at RecvActivation microbatch 0 (batch 0)");
}

}  // namespace
}  // namespace twobw::schedule
