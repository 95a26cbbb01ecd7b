#include "core/telemetry/board.h"

#include <gtest/gtest.h>

#include <regex>
#include <thread>

namespace twobw::telemetry {
namespace {

using schedule::Op;

// The report without ages, which depend on the clock.
std::string report(const Board& board) {
  return std::regex_replace(board.report(), std::regex("for [0-9]+\\.[0-9] s"), "for a while");
}

TEST(Board, ShowsTheLatestInstructionOfEveryStageAndHowItEnded) {
  Board board(4);
  board.begin(0, {.op = Op::RecvGradient, .microbatch = 2});
  board.begin(0, {.op = Op::Forward, .batch = 1, .microbatch = 5, .version = 0});
  EXPECT_NE(board.report().find("W(0), for 0."), std::string::npos) << board.report();
  board.begin(1, {.op = Op::Step, .batch = 9, .version = 10});
  board.finish(1, "failed");
  board.finish(2, "finished");  // before any instruction
  EXPECT_EQ(report(board),
            "  stage 0: Forward microbatch 5 (batch 1) on W(0), for a while\n"
            "  stage 1: failed at Step batch 9 to W(10), for a while\n"
            "  stage 2: finished, for a while\n"
            "  stage 3: not started, for a while\n");
}

TEST(Board, NamesReplicasIfThereAreSeveral) {
  Board board(1, 2);
  board.begin(1, {.op = Op::Step, .batch = 0, .version = 1});
  EXPECT_EQ(report(board),
            "  replica 0 stage 0: not started, for a while\n"
            "  replica 1 stage 0: Step batch 0 to W(1), for a while\n");
}

TEST(Board, MayBeReadWhileOthersWrite) {
  Board board(2);
  std::jthread writer([&] {
    for (int k = 0; k < 1000; ++k) board.begin(1, {.op = Op::Forward, .microbatch = k, .version = 0});
  });
  for (int i = 0; i < 100; ++i) EXPECT_EQ(board.report().find("  stage 0: not started"), 0u);
  writer.join();
  EXPECT_NE(report(board).find("stage 1: Forward microbatch 999"), std::string::npos);
}

}  // namespace
}  // namespace twobw::telemetry
