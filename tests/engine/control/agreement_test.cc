#include "engine/control/agreement.h"

#include <gtest/gtest.h>

#include "tests/engine/control/ranks.h"
#include "tests/engine/support/memory_control.h"

namespace twobw::control {
namespace {

TEST(Facts, WhatDiffersIsNamedWithValuesAndRanks) {
  const Facts one = {{"layers", "8"}, {"seed", "0"}, {"split", "4 4"}};
  const Facts two = {{"layers", "6"}, {"seed", "0"}, {"split", "3 3"}};
  EXPECT_EQ(compare_facts({one, one, one}), "");
  EXPECT_EQ(
      compare_facts({one, two, one, two, two}),
      "the processes of this run must agree, but layers is '8' on processes 0, 2, '6' on processes 1, 3, 4\n"
      "  split is '4 4' on processes 0, 2, '3 3' on processes 1, 3, 4");
  EXPECT_EQ(compare_facts({one, {{"layers", "8"}, {"seed", "1"}, {"new", "x"}}}),
            "the processes of this run must agree, but seed is '0' on process 0, '1' on process 1\n"
            "  split is '4 4' on process 0, missing on process 1\n"
            "  new is missing on process 0, 'x' on process 1");
}

TEST(Facts, AtMostEightLines) {
  Facts one, two;
  for (int i = 0; i < 20; ++i) {
    one.emplace_back("key" + std::to_string(i), "a");
    two.emplace_back("key" + std::to_string(i), i < 3 ? "a" : "b");
  }
  const std::string text = compare_facts({one, two});
  EXPECT_NE(text.find("key10 is"), std::string::npos);
  EXPECT_EQ(text.find("key11"), std::string::npos);
  EXPECT_NE(text.find("\n  and 9 more"), std::string::npos);
}

// Errors of agree() by rank: "input: ..." or "run: ..."; empty if the ranks agree. Ranks without facts do
// not call it.
std::vector<std::string> outcomes(const std::vector<std::vector<Facts>>& rounds, double deadline_s = 20) {
  const std::size_t size = rounds[0].size();
  auto controls = controls_in_memory(static_cast<int>(size));
  std::vector<std::string> results(size);
  std::vector<std::unique_ptr<Mail>> mails;
  for (auto& control : controls) mails.push_back(std::make_unique<Mail>(*control));
  for (auto& control : controls) control->start();
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        for (const auto& facts : rounds) {
          if (!facts[rank].empty()) agree(*controls[rank], *mails[rank], facts[rank], deadline_s);
        }
      } catch (const InputError& error) {
        results[rank] = std::string("input: ") + error.what();
      } catch (const RunError& error) {
        results[rank] = std::string("run: ") + error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

TEST(Agreement, AllAgreeRoundAfterRound) {
  const Facts first = {{"layers", "8"}}, second = {{"checksum", "123"}};
  EXPECT_EQ(outcomes({{first, first, first}, {second, second, second}, {first, first, first}}),
            std::vector<std::string>(3));
}

TEST(Agreement, EveryRankLearnsWhatDiffers) {
  const Facts first = {{"layers", "8"}}, second = {{"checksum", "123"}}, other = {{"checksum", "321"}};
  const std::string text =
      "input: the processes of this run must agree, but checksum is '123' on processes 0, 1, '321' on "
      "process 2";
  EXPECT_EQ(outcomes({{first, first, first}, {second, second, other}}),
            (std::vector<std::string>{text, text, text}));
}

TEST(Agreement, RanksThatNeverComeAreNamed) {
  const Facts facts = {{"layers", "8"}};
  const std::string text = "processes 1, 3 did not join the comparison before the start within 0.05 s";
  const auto results = outcomes({{facts, {}, facts, {}}}, 0.05);
  EXPECT_EQ(results[0], "run: " + text);
  EXPECT_EQ(results[2], "run: process 0: " + text);
}

TEST(Agreement, IfRankZeroNeverComesTheOthersSaySo) {
  const Facts facts = {{"layers", "8"}};
  EXPECT_EQ(outcomes({{{}, facts}}, 0.05)[1],
            "run: process 0 did not compare the processes before the start within 0.1 s");
}

TEST(Agreement, OneRankAgreesWithItself) {
  EXPECT_EQ(outcomes({{Facts{{"layers", "8"}}}}), std::vector<std::string>{""});
}

}  // namespace
}  // namespace twobw::control
