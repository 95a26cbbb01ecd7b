// Which workers are reported as stragglers.
#include "app/train/stragglers.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/device/device.h"
#include "engine/runtime/setup.h"
#include "tests/app/train/saved_config.h"

namespace twobw::train {
namespace {

constexpr double kMs = 1e-3;

// Adds `updates` updates with these times; returns all verdicts.
Stragglers::Verdict add(Stragglers& stragglers, int updates, const std::vector<double>& ms,
                        double elapsed = 1) {
  std::vector<double> seconds;
  for (const double each : ms) seconds.push_back(each * kMs);
  Stragglers::Verdict all;
  for (int i = 0; i < updates; ++i) {
    const Stragglers::Verdict verdict = stragglers.add(seconds, elapsed);
    all.begun.insert(all.begun.end(), verdict.begun.begin(), verdict.begun.end());
    all.ended.insert(all.ended.end(), verdict.ended.begin(), verdict.ended.end());
  }
  return all;
}

constexpr int kSettled = Stragglers::kWarmUp + Stragglers::kLeastPast;

TEST(Stragglers, OneThatSlowsDownIsNamedOnceAndWhenItIsBack) {
  Stragglers stragglers(2);
  EXPECT_TRUE(add(stragglers, kSettled, {20, 30}).begun.empty());
  EXPECT_TRUE(add(stragglers, Stragglers::kLeastUpdates - 1, {20, 60}).begun.empty());
  const auto named = add(stragglers, 1, {20, 60}).begun;
  ASSERT_EQ(named.size(), 1u);
  EXPECT_EQ(named[0].worker, 1);
  EXPECT_DOUBLE_EQ(named[0].measured, 60 * kMs);
  EXPECT_DOUBLE_EQ(named[0].expected, 30 * kMs);
  EXPECT_EQ(named[0].updates, Stragglers::kLeastUpdates);
  // However long it lasts, it is one episode: its own slowness does not change the expected time.
  EXPECT_TRUE(add(stragglers, 3 * Stragglers::kPast, {20, 60}).begun.empty());
  ASSERT_EQ(stragglers.current().size(), 1u);
  EXPECT_EQ(stragglers.current()[0].updates, Stragglers::kLeastUpdates + 3 * Stragglers::kPast);
  EXPECT_TRUE(add(stragglers, Stragglers::kLeastUpdates - 1, {20, 31}).ended.empty());
  const auto ended = add(stragglers, 1, {20, 31}).ended;
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].worker, 1);
  EXPECT_DOUBLE_EQ(ended[0].measured, 31 * kMs);
  EXPECT_TRUE(stragglers.current().empty());
  EXPECT_EQ(add(stragglers, 2 * Stragglers::kLeastUpdates, {20, 60}).begun.size(), 1u);  // another one
}

TEST(Stragglers, ASlowUpdateNowAndThenIsNone) {
  Stragglers stragglers(2);
  add(stragglers, kSettled, {20, 30});
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(add(stragglers, Stragglers::kLeastUpdates - 1, {90, 30}).begun.empty());
    EXPECT_TRUE(add(stragglers, Stragglers::kLeastUpdates - 1, {20, 30}).begun.empty());
  }
}

// As where another program has the core for most of the time.
TEST(Stragglers, OneThatIsSlowInMostUpdatesIsNamed) {
  Stragglers stragglers(2);
  add(stragglers, kSettled, {20, 30}, 0.05);
  std::vector<Straggler> named;
  int updates = 0;
  for (; named.empty() && updates < 200; updates += 3) {
    EXPECT_TRUE(add(stragglers, 1, {20, 31}, 0.05).begun.empty());
    named = add(stragglers, 2, {20, 150}, 0.05).begun;
  }
  ASSERT_EQ(named.size(), 1u);
  EXPECT_EQ(named[0].worker, 1);
  EXPECT_DOUBLE_EQ(named[0].measured, 150 * kMs);
  EXPECT_NEAR(updates * 0.05, Stragglers::kLeastTime * 3 / 2, 0.2);
  EXPECT_NEAR(static_cast<double>(named[0].updates), updates, 2);
  // A few fast ones in a row do not end it, where they are soon over.
  EXPECT_TRUE(add(stragglers, 2 * Stragglers::kLeastUpdates, {20, 30}, 0.05).ended.empty());
  EXPECT_TRUE(add(stragglers, 1, {20, 150}, 0.05).ended.empty());
  EXPECT_EQ(add(stragglers, 50, {20, 30}, 0.05).ended.size(), 1u);
}

TEST(Stragglers, ABusyMomentIsNone) {
  Stragglers stragglers(2);
  add(stragglers, kSettled, {2, 3}, 0.01);
  const int updates = static_cast<int>(Stragglers::kLeastTime / 0.01);
  EXPECT_TRUE(add(stragglers, updates - 2, {2, 6}, 0.01).begun.empty());
  const auto named = add(stragglers, 4, {2, 6}, 0.01).begun;
  ASSERT_EQ(named.size(), 1u);
  EXPECT_GE(named[0].updates, updates - 1);
}

TEST(Stragglers, WhatComesToAllMakesNobodyOne) {
  Stragglers stragglers(3);
  add(stragglers, kSettled, {20, 30, 10});
  EXPECT_TRUE(add(stragglers, 20, {60, 90, 30}).begun.empty());
  // Against the others it is one.
  const auto named = add(stragglers, 20, {60, 90, 50}).begun;
  ASSERT_EQ(named.size(), 1u);
  EXPECT_EQ(named[0].worker, 2);
}

TEST(Stragglers, AFasterPaceOfTheOthersIsNoFault) {
  Stragglers stragglers(2);
  add(stragglers, kSettled, {20, 30});
  EXPECT_TRUE(add(stragglers, 20, {10, 30}).begun.empty());
}

TEST(Stragglers, APlanIsWhatIsExpectedFromTheFirst) {
  Stragglers stragglers(2, {20 * kMs, 20 * kMs});
  EXPECT_TRUE(add(stragglers, Stragglers::kWarmUp + Stragglers::kLeastUpdates - 1, {22, 44}).begun.empty());
  const auto named = add(stragglers, 1, {22, 44}).begun;
  ASSERT_EQ(named.size(), 1u);
  EXPECT_EQ(named[0].worker, 1);
  EXPECT_DOUBLE_EQ(named[0].expected, 20 * kMs);
}

TEST(Stragglers, AWorkerAloneHasItsOwnPast) {
  Stragglers stragglers(1);
  add(stragglers, kSettled, {20});
  EXPECT_TRUE(add(stragglers, 20, {29}).begun.empty());
  Stragglers other(1);
  add(other, kSettled, {20});
  EXPECT_EQ(add(other, 20, {31}).begun.size(), 1u);
}

TEST(Stragglers, TimesTooShortToMatterAreNotJudged) {
  Stragglers stragglers(2);
  add(stragglers, kSettled, {0.2, 0.2});
  EXPECT_TRUE(add(stragglers, 20, {0.2, 0.6}).begun.empty());
}

// The reports of an update in which the workers computed for so many milliseconds a microbatch.
CompleteUpdate update_of(std::int64_t number, const std::vector<double>& ms, int microbatches) {
  CompleteUpdate update{.update = number};
  for (std::size_t i = 0; i < ms.size(); ++i)
    update.stages.push_back({.stage = static_cast<int>(i),
                             .update = number,
                             .waiting = 0.5,
                             .elapsed = 0.5 + ms[i] * kMs * microbatches});
  return update;
}

TEST(StragglerReport, SaysOnceWhoWhereAndHowSlow) {
  const runtime::Setup setup = runtime::prepare(saved_config("unused"));
  const std::vector<runtime::HostDevices> hosts = {{.host = "node3"}, {.host = "node4"}};
  const planner::Plan plan{.stages = {{.forward = 10 * kMs, .backward = 20 * kMs, .step = 8 * kMs},
                                      {.forward = 10 * kMs, .backward = 28 * kMs, .step = 8 * kMs}}};
  StragglerReport report(setup, hosts, &plan);
  std::vector<std::string> lines;
  for (int i = 0; i < 20; ++i) {
    const bool slow = i >= 6 && i < 13;
    const auto said = report.add(update_of(i, {33, slow ? 80.0 : 41.0}, setup.spec.shape.microbatches));
    lines.insert(lines.end(), said.lines.begin(), said.lines.end());
    ASSERT_EQ(said.stragglers.size(), i >= 10 && i < 17 ? 1u : 0u) << i;
    if (said.stragglers.empty()) continue;
    EXPECT_EQ(said.stragglers[0]["stage"], 1);
    EXPECT_EQ(said.stragglers[0]["process"], 1);
    EXPECT_EQ(said.stragglers[0]["host"], "node4");
    EXPECT_NEAR(said.stragglers[0]["ms"].get<double>(), 80, 1e-6);
    EXPECT_NEAR(said.stragglers[0]["expected_ms"].get<double>(), 40, 1e-6);
    EXPECT_EQ(said.stragglers[0]["updates"], i - 5);
  }
  const std::string who =
      fmt::format("stage 1 on {} of node4 (process 1)", device::describe(setup.devices[1]));
  EXPECT_EQ(
      lines,
      (std::vector<std::string>{
          "warning: " + who +
              " is slow: since update 7 it computes for 80.0 ms a microbatch, and its plan says 40.0 ms",
          who + " is as fast as expected again: 41.0 ms a microbatch"}));
}

}  // namespace
}  // namespace twobw::train
