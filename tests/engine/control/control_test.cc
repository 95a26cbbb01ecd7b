// Contract of the control channel, over TCP and over socket pairs.
#include "engine/control/control.h"

#include <gtest/gtest.h>

#include <future>

#include "engine/control/protocol.h"
#include "tests/engine/control/ranks.h"
#include "tests/engine/support/memory_control.h"

namespace twobw::control {
namespace {

enum class Over { Memory, Tcp };

class ControlTest : public testing::TestWithParam<Over> {
 protected:
  static std::vector<std::unique_ptr<Control>> make(int size) {
    return GetParam() == Over::Memory ? controls_in_memory(size) : controls_over_tcp(size);
  }
  static RankSet rank_set(int size) { return RankSet(make(size)); }
};

INSTANTIATE_TEST_SUITE_P(All, ControlTest, testing::Values(Over::Memory, Over::Tcp),
                         [](const auto& one) { return one.param == Over::Memory ? "Memory" : "Tcp"; });

using Lines = std::vector<std::string>;

TEST_P(ControlTest, EveryRankReachesEveryRank) {
  constexpr int kSize = 4;
  RankSet ranks = rank_set(kSize);
  for (std::size_t from = 0; from < kSize; ++from) {
    EXPECT_EQ(ranks[from].rank(), static_cast<int>(from));
    EXPECT_EQ(ranks[from].size(), kSize);
    for (int to = 0; to < kSize; ++to) ranks[from].send(to, Topic::Other, "to " + std::to_string(to));
  }
  for (std::size_t rank = 0; rank < kSize; ++rank) {
    Lines lines = ranks.logs[rank].wait(kSize);
    std::sort(lines.begin(), lines.end());
    const std::string to = std::to_string(rank);
    EXPECT_EQ(lines, (Lines{"0: to " + to, "1: to " + to, "2: to " + to, "3: to " + to}));
  }
  EXPECT_EQ(ranks.leave(), Lines(kSize));
}

TEST_P(ControlTest, MessagesArriveInOrderWhoeverTheyAreFor) {
  RankSet ranks = rank_set(3);
  constexpr int kCount = 300;
  for (int i = 0; i < kCount; ++i) {
    if (i % 3 == 0) {
      ranks[1].send_to_others(Topic::Other, std::to_string(i));
    } else {
      ranks[1].send(2, Topic::Other, std::to_string(i));
    }
  }
  Lines expected;
  for (int i = 0; i < kCount; ++i) expected.push_back("1: " + std::to_string(i));
  EXPECT_EQ(ranks.logs[2].wait(kCount), expected);
  EXPECT_EQ(ranks.logs[0].wait(kCount / 3).size(), kCount / 3);
  EXPECT_EQ(ranks.leave(), Lines(3));
  EXPECT_EQ(ranks.logs[1].lines(), Lines());  // not to itself
}

TEST_P(ControlTest, LongMessages) {
  RankSet ranks = rank_set(3);
  std::string body(9 << 20, '\0');
  for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>(i * 2654435761u >> 24);
  ranks[1].send(2, Topic::Other, body);
  ranks[2].send_to_others(Topic::Other, body);
  ranks[0].send(1, Topic::Other, "short");
  EXPECT_TRUE(ranks.logs[2].wait(1)[0] == "1: " + body);
  EXPECT_TRUE(ranks.logs[0].wait(1)[0] == "2: " + body);
  EXPECT_EQ(ranks.logs[1].wait(2).size(), 2u);
  EXPECT_THROW(ranks[1].send(2, Topic::Other, std::string(kMaxBody + 1, 'x')), RunError);
  EXPECT_EQ(ranks.leave(), Lines(3));
}

TEST_P(ControlTest, HandlersMayAnswer) {
  std::promise<std::string> answered;
  auto controls = make(3);
  for (auto& control : controls) {
    control->on(Topic::Gate, [one = control.get()](int from, std::string_view body) {
      one->send(from, Topic::Norms, std::string(body) + " " + std::to_string(one->rank()));
    });
    control->on(Topic::Norms, [&](int, std::string_view body) { answered.set_value(std::string(body)); });
    control->start();
  }
  controls[1]->send(2, Topic::Gate, "who?");
  EXPECT_EQ(answered.get_future().get(), "who? 2");
}

TEST_P(ControlTest, WhatComesBeforeTheStartWaits) {
  Log log;
  auto controls = make(2);
  controls[0]->send(1, Topic::Other, "early");
  controls[0]->send(1, Topic::Other, "bird");
  controls[1]->on(Topic::Other, [&](int, std::string_view body) { log.add(std::string(body)); });
  controls[1]->start();
  EXPECT_EQ(log.wait(2), (Lines{"early", "bird"}));
}

TEST_P(ControlTest, AnAbortBeforeTheStartIsToldAtTheStart) {
  Log log;
  auto controls = make(2);
  controls[0]->abort("no data");
  EXPECT_EQ(RankSet::error_of([&] { controls[1]->leave(); }), "process 0: no data");
  controls[1]->on_abort([&](const Failure& failure) { log.add(failure.reason); });
  controls[1]->start();
  EXPECT_EQ(log.wait(1), Lines{"process 0: no data"});
}

TEST_P(ControlTest, AnAbortEndsAllWithOneReason) {
  for (std::size_t who = 0; who < 3; ++who) {
    RankSet ranks = rank_set(3);
    ranks[who].abort("the disk is full");
    ranks[who].abort("and so is the moon");
    ranks.expect_one_reason("process " + std::to_string(who) + ": the disk is full");
  }
}

TEST_P(ControlTest, WrongInputOfOneIsWrongInputForAll) {
  for (std::size_t who = 0; who < 3; ++who) {
    RankSet ranks = rank_set(3);
    ranks[who].abort({"no such file", /*wrong_input=*/true});
    for (const auto& control : ranks.controls) EXPECT_THROW(control->leave(), InputError);
    ranks.expect_one_reason("process " + std::to_string(who) + ": no such file");
  }
}

TEST_P(ControlTest, OfManyAbortsAtOnceOneStands) {
  RankSet ranks = rank_set(4);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < 4; ++rank)
    threads.emplace_back([&, rank] { ranks[rank].abort("enough"); });
  for (std::thread& thread : threads) thread.join();
  ranks.expect_one_reason(ranks.aborts[0].wait(1)[0]);
}

TEST_P(ControlTest, AnAbortWakesThoseThatWaitToLeave) {
  RankSet ranks = rank_set(3);
  auto waiting = std::async(std::launch::async, [&] { return RankSet::error_of([&] { ranks[1].leave(); }); });
  ranks[2].abort("not yet");
  EXPECT_EQ(waiting.get(), "process 2: not yet");
}

TEST_P(ControlTest, LeavingWaitsForAll) {
  RankSet ranks = rank_set(3);
  ranks[2].send(0, Topic::Other, "last words");
  auto zero = std::async(std::launch::async, [&] { ranks[0].leave(); });
  auto two = std::async(std::launch::async, [&] { ranks[2].leave(); });
  // The remaining ranks continue to receive messages.
  EXPECT_EQ(ranks.logs[0].wait(1), Lines{"2: last words"});
  ranks[1].send(2, Topic::Other, "not yet");
  EXPECT_EQ(ranks.logs[2].wait(1), Lines{"1: not yet"});
  ranks[1].leave();
  zero.get();
  two.get();
  for (Log& log : ranks.aborts) EXPECT_EQ(log.lines(), Lines());
  ranks[0].abort("too late");  // of no effect
  ranks[0].leave();
}

TEST_P(ControlTest, OneThatGoesWithoutLeavingEndsAll) {
  for (std::size_t who = 0; who < 3; ++who) {
    RankSet ranks = rank_set(3);
    ranks.controls[who].reset();
    const std::string reason =
        who == 0 ? "process 0 closed its connection before all had left"
                 : "process " + std::to_string(who) + " closed its connection without leaving";
    for (std::size_t rank = 0; rank < 3; ++rank) {
      if (rank == who) continue;
      EXPECT_EQ(ranks.aborts[rank].wait(1), Lines{reason});
    }
  }
}

TEST_P(ControlTest, LastWordsOfOneThatAbortsAndGoesAreHeard) {
  for (std::size_t who = 0; who < 3; ++who) {
    RankSet ranks = rank_set(3);
    ranks[who].abort("out of memory");
    ranks.controls[who].reset();
    for (std::size_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(ranks.aborts[rank].wait(1), Lines{"process " + std::to_string(who) + ": out of memory"});
    }
  }
}

TEST_P(ControlTest, WhatAHandlerThrowsEndsAll) {
  auto controls = make(2);
  controls[1]->on(Topic::Gate, [](int, std::string_view) { fail_run("no such batch"); });
  for (auto& control : controls) control->start();
  controls[0]->send(1, Topic::Gate, "7");
  EXPECT_EQ(RankSet::error_of([&] { controls[0]->leave(); }), "process 1: no such batch");
}

TEST_P(ControlTest, ATopicWithoutAHandlerEndsAll) {
  RankSet ranks = rank_set(2);
  ranks[0].send(1, Topic::Mail, "x");
  ranks.expect_one_reason("process 1: process 0 sent a message of topic 0, which has no handler");
}

TEST_P(ControlTest, LivesOfAllOthers) {
  RankSet ranks = rank_set(3);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const std::vector<Liveness> lives = ranks[rank].liveness();
    ASSERT_EQ(lives.size(), 2u);
    for (const Liveness& life : lives) {
      EXPECT_NE(life.rank, static_cast<int>(rank));
      EXPECT_GE(life.silent_s, 0);
      EXPECT_LT(life.silent_s, 20);
      EXPECT_FALSE(life.has_left);
    }
  }
  EXPECT_EQ(ranks.leave(), Lines(3));
  EXPECT_TRUE(ranks[0].liveness()[1].has_left);
}

TEST_P(ControlTest, OneRankAlone) {
  RankSet ranks = rank_set(1);
  ranks[0].send(0, Topic::Other, "echo");
  ranks[0].send_to_others(Topic::Other, "nobody");
  EXPECT_EQ(ranks.logs[0].wait(1), Lines{"0: echo"});
  EXPECT_TRUE(ranks[0].liveness().empty());
  ranks[0].leave();
}

}  // namespace
}  // namespace twobw::control
